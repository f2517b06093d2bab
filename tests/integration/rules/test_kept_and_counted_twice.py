"""Losses that count twice, changes of gradients that come too late, and parameters that were kept without a copy, in
the words of different people; and their healthy look-alikes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = HEAD + "model = nn.Linear(4, 3)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.05)\n"
LOOP = "for step in range(4):\n    x = torch.randn(8, 4)\n    out = model(x)\n"
FIT = "    loss = F.mse_loss(out, x[:, :3])" + TRAIN
TERMS = MODEL + LOOP + "    terms = {'fit': F.mse_loss(out, x[:, :3]), 'size': out.abs().mean()}\n"
TOTAL = TERMS + "    terms['total'] = terms['fit'] + 0.1 * terms['size']\n"
BACKWARD = "    optimizer.zero_grad()\n    {}\n    optimizer.step()\n"
DEEP = HEAD + (
    "net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))\n"
    "optimizer = torch.optim.SGD(net.parameters(), lr=0.05)\n"
)
DEEP_LOOP = (
    "for step in range(4):\n    x = torch.randn(8, 4)\n    with torch.no_grad():\n"
    "        old = torch.func.functional_call(net, kept, (x,)).softmax(-1)\n    out = net(x)\n"
    "    loss = F.cross_entropy(out, torch.randint(0, 3, (8,)))\n"
    "    loss = loss + F.kl_div(out.log_softmax(-1), old, reduction='batchmean')" + TRAIN
)
SLOW = FIT + "    if step % 2:\n        with torch.no_grad():\n            {}\n"
WRITE = MODEL + (
    "for step in range(4):\n    src = torch.randint(0, 6, (30,))\n    message = model(torch.randn(30, 4))\n"
    "    box = {}\n    loss = (box - 1).square().mean()" + TRAIN
)

TABLES = (
    HEAD
    + (
        "table = torch.randn(20, 4)\n{}\noptimizer = torch.optim.SGD([read, score], lr=0.05)\nfor step in range(3):\n"
        "    x = torch.randint(0, 10, (8,))\n    loss = F.cross_entropy(F.embedding(x, read) @ score.t(), x)"
    )
    + TRAIN
)

CLOSURE = MODEL + (
    "def closure():\n    loss = F.mse_loss(model(x), x[:, :3])\n    {}loss.backward()\n    return loss\n"
    "for step in range(3):\n    x = torch.randn(8, 4)\n"
)

TOLD = {
    "a closure that is called before its step": (
        "gradient_counted_twice",
        CLOSURE.format("")
        + "    optimizer.zero_grad()\n    print(closure().item())  # HERE\n    optimizer.step(closure)\n",
    ),
    "a backward before the step whose closure does it again": (
        "gradient_counted_twice",
        CLOSURE.format("") + "    model.zero_grad()\n    loss = (model(x) - x[:, :3]).square().mean()\n"
        "    loss.backward()  # HERE\n    optimizer.step(lambda: closure())\n",
    ),
    "two parameters of one tensor": (
        "broken_weight_tie",
        TABLES.format("read = nn.Parameter(table)\nscore = nn.Parameter(table)  # HERE"),
    ),
    "two parameters of one tensor, in a ParameterDict": (
        "broken_weight_tie",
        TABLES.format(
            "tables = nn.ParameterDict({\n    'read': nn.Parameter(table),\n    'score': nn.Parameter(table),  # HERE\n"
            "})\n"
            "read, score = tables.values()"
        ),
    ),
    "two leaves of one tensor": (
        "broken_weight_tie",
        TABLES.format("read = table.detach().requires_grad_()\nscore = table.detach().requires_grad_()  # HERE"),
    ),
    "all terms and their total, with backward of each": (
        "gradient_counted_twice",
        TERMS
        + "    terms['total'] = torch.stack(tuple(terms.values())).sum()\n"
        + BACKWARD.format("torch.autograd.backward(list(terms.values()))  # HERE"),
    ),
    "the sum of all terms and their total": (
        "gradient_counted_twice",
        TOTAL + "    loss = sum(terms.values())  # HERE" + TRAIN,
    ),
    "the same, stacked": (
        "gradient_counted_twice",
        TOTAL + "    loss = torch.stack(list(terms.values())).sum()  # HERE" + TRAIN,
    ),
    "clipping in a hook after the step": (
        "clip_misplaced",
        MODEL + "class Clip:\n    def __call__(self, optimizer, args, kwargs):\n"
        "        nn.utils.clip_grad_norm_(model.parameters(), 0.01)\n"
        "optimizer.register_step_post_hook(Clip())  # HERE\n" + LOOP + FIT,
    ),
    "a bound in a hook after the step": (
        "clip_misplaced",
        MODEL + "def bound(optimizer, args, kwargs):\n    for p in model.parameters():\n"
        "        p.grad.clamp_(-0.01, 0.01)\n"
        "optimizer.register_step_post_hook(bound)  # HERE\n" + LOOP + FIT,
    ),
    "torch.index_put": (
        "duplicate_index",
        WRITE.format("torch.index_put(torch.zeros(6, 3), (src,), message)  # HERE"),
    ),
    "index_put_ as a function": (
        "duplicate_index",
        WRITE.format("torch.index_put_(torch.zeros(6, 3), (src,), message)  # HERE"),
    ),
    "put": (
        "duplicate_index",
        WRITE.format("torch.zeros(6).put(src, message.sum(1))  # HERE"),
    ),
    "a reference of detached parameters": (
        "ratio_always_one",
        DEEP + "kept = {name: p.detach() for name, p in net.named_parameters()}  # HERE\n" + DEEP_LOOP,
    ),
    "a reference of a state that was not copied": (
        "ratio_always_one",
        DEEP + "kept = net.state_dict()  # HERE\n" + DEEP_LOOP,
    ),
    "slow weights that are .data, in lists": (
        "copied_onto_itself",
        MODEL + "fast = list(model.parameters())\nslow = [p.data for p in fast]  # HERE\n" + LOOP
        + SLOW.format("torch._foreach_lerp_(slow, fast, 0.5)\n            torch._foreach_copy_(fast, slow)"),
    ),
    "slow weights that are flattened views": (
        "copied_onto_itself",
        MODEL + "fast = list(model.parameters())\nslow = [p.detach().view(-1) for p in fast]  # HERE\n" + LOOP
        + SLOW.format("for p, s in zip(fast, slow):\n                p.copy_(s.view_as(p))"),
    ),
    "a difference of lists": (
        "difference_with_itself",
        MODEL + "start = [p.detach().flatten() for p in model.parameters()]  # HERE\n" + LOOP + FIT
        + "now = [p.detach().flatten() for p in model.parameters()]\nmove = torch._foreach_sub(now, start)\n"
        + "print(torch.cat(move).norm())\n",
    ),
    "a distance under no_grad": (
        "difference_with_itself",
        MODEL + "start = [p.data for p in model.parameters()]  # HERE\n" + LOOP + FIT
        + "with torch.no_grad():\n    print(sum(torch.dist(p, s) for p, s in zip(model.parameters(), start)))\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_it_is_told_in_other_words(name: str, tmp_path: Path) -> None:
    cause, script = TOLD[name]
    assert_first_alarm(script, cause, tmp_path)


HEALTHY = {
    "a closure that clears, called before its step": CLOSURE.format("optimizer.zero_grad()\n    ")
    + "    print(closure().item())\n    optimizer.step(closure)\n",
    "a closure for another half of the batch": CLOSURE.format("")
    + "    whole = x\n    optimizer.zero_grad()\n    x = whole[:4]\n    closure()\n    x = whole[4:]\n"
    "    optimizer.step(closure)\n",
    "two parameters in one flat memory": TABLES.format(
        "read, score = nn.Parameter(table[:10]), nn.Parameter(table[10:])"
    ),
    "two parameters of copies": TABLES.format("read, score = nn.Parameter(table.clone()), nn.Parameter(table.clone())"),
    "one parameter by two names": TABLES
    .replace("[read, score]", "[read]").format("read = score = nn.Parameter(table)"),
    "a running sum of terms": TERMS
    + "    loss = 0\n    for term in terms.values():\n        loss = loss + term" + TRAIN,
    "a total that only one of its terms is added to": TOTAL + "    loss = terms['total'] + terms['fit']" + TRAIN,
    "backward of terms without a total": TERMS
    + BACKWARD.format("torch.autograd.backward(list(terms.values()))"),
    "a total among terms that weighs them": TOTAL + "    loss = terms['total'] + 0.5 * out.square().mean()" + TRAIN,
    "clipping in a hook before the step": MODEL
    + "def bound(optimizer, args, kwargs):\n    for p in model.parameters():\n        p.grad.clamp_(-0.01, 0.01)\n"
    "optimizer.register_step_pre_hook(bound)\n" + LOOP + FIT,
    "a hook after the step that bounds the parameters": MODEL
    + "def bound(optimizer, args, kwargs):\n    for p in model.parameters():\n        p.data.clamp_(-0.3, 0.3)\n"
    "optimizer.register_step_post_hook(bound)\n" + LOOP + FIT,
    "clipping before the step, and a hook that counts": MODEL
    + "count = torch.zeros(())\noptimizer.register_step_post_hook(lambda o, a, k: count.add_(1))\n" + LOOP
    + "    loss = F.mse_loss(out, x[:, :3])\n    optimizer.zero_grad()\n    loss.backward()\n"
    "    nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n    optimizer.step()\n",
    "index_put that adds up": WRITE.format("torch.index_put(torch.zeros(6, 3), (src,), message, accumulate=True)"),
    "put that adds up": WRITE.format("torch.zeros(6).put(src, message.sum(1), accumulate=True)"),
    "a reference of copies": DEEP
    + "kept = {name: p.detach().clone() for name, p in net.named_parameters()}\n" + DEEP_LOOP,
    "slow weights that are copies": MODEL
    + "fast = list(model.parameters())\nslow = [p.detach().clone() for p in fast]\n" + LOOP
    + SLOW.format("torch._foreach_lerp_(slow, fast, 0.5)\n            torch._foreach_copy_(fast, slow)"),
    "a difference with copies": MODEL
    + "start = [p.detach().flatten().clone() for p in model.parameters()]\n" + LOOP + FIT
    + "now = [p.detach().flatten() for p in model.parameters()]\nmove = torch._foreach_sub(now, start)\n",
    "a difference with the gradient of the same list": MODEL + LOOP + FIT
    + "with torch.no_grad():\n    params = list(model.parameters())\n"
    "    new = torch._foreach_sub(params, [p.grad for p in params])\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_what_only_looks_like_it_is_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)


TEACHER = MODEL + (
    "teacher = copy.deepcopy(model).requires_grad_(False)\nfor step in range(3):\n    x = torch.randn(8, 4)\n"
    "    loss = F.mse_loss(model(x), teacher(x + 0.1)) + model(x).square().mean()\n"
    "    optimizer.zero_grad()\n    loss.backward()\n{}    optimizer.step()\n    with torch.no_grad():\n"
    "        slow, fast = list(teacher.parameters()), list(model.parameters())\n        {}\n"
)
EVALUATED = MODEL + (
    "slow = copy.deepcopy(model).requires_grad_(False)\nfor step in range(3):\n    x = torch.randn(8, 4)\n"
    "    loss = model(x).square().mean()\n"
    "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n    with torch.no_grad():\n"
    "        {}\n    print(slow(x).mean().item())\n"
)
PAIRS = "for t, p in zip(slow.parameters(), model.parameters()):\n            "
AVERAGED = "torch._foreach_lerp_(slow, fast, 0.1)"
DISCARDED = {
    "a whole list": TEACHER.format("", "torch._foreach_lerp(slow, fast, 0.1)  # HERE"),
    "the memory of a parameter": TEACHER.format(
        "", "for t, p in zip(slow, fast):\n            t.data.lerp(p.data, 0.1)  # HERE"
    ),
    "a chain of two": TEACHER.format(
        "", "for t, p in zip(slow, fast):\n            t.mul(0.9).add(p, alpha=0.1)  # HERE"
    ),
    "a whole list that is only evaluated": EVALUATED.format(
        "torch._foreach_lerp(list(slow.parameters()), list(model.parameters()), 0.1)  # HERE"
    ),
    "an average that is only evaluated": EVALUATED.format(PAIRS + "torch.lerp(t, p, 0.1)  # HERE"),
    "a chain of two, only evaluated": EVALUATED.format(PAIRS + "t.data.mul(0.9).add(p.data, alpha=0.1)  # HERE"),
    "a step towards it, only evaluated": EVALUATED.format(PAIRS + "t.add(p - t, alpha=0.1)  # HERE"),
    "a bound of gradients": TEACHER.format(
        "    for p in model.parameters():\n        p.grad.clamp(-0.1, 0.1)  # HERE\n", AVERAGED
    ),
}


@pytest.mark.parametrize("name", DISCARDED)
def test_results_that_nothing_takes_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(DISCARDED[name], "result_discarded", tmp_path)


TAKEN = {
    "averages that are changed in place": TEACHER.format("", AVERAGED),
    "averages for an evaluation": EVALUATED.format(PAIRS + "t.lerp_(p, 0.1)"),
    "averages that are copied for an evaluation": EVALUATED.format(PAIRS + "t.copy_(t.lerp(p, 0.1))"),
    "a distance that is printed": EVALUATED.format(PAIRS + "print(t.sub(p).norm())"),
    "results that are copied back": TEACHER.format(
        "", "torch._foreach_copy_(slow, torch._foreach_lerp(slow, fast, 0.1))"
    ),
    "a result that is printed": TEACHER.format("", AVERAGED + "\n        print(slow[0].sub(fast[0]).norm())"),
    "a bound that gives the norm": TEACHER.format("    nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n", AVERAGED),
}


@pytest.mark.parametrize("name", TAKEN)
def test_results_that_something_takes_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(TAKEN[name], tmp_path)
