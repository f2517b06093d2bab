"""Offsets that a softmax cancels, optimizers in another order than their models, and derivatives forward."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

# torch uses TorchScript for derivatives forward, and says that it is deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")

SCORES = HEAD + (
    "net, head = nn.Linear(4, 4), nn.Linear(4, 2)\noffset = nn.Parameter(0.1 * torch.randn({}))\n"
    "optimizer = torch.optim.Adam([*net.parameters(), *head.parameters(), offset])\n"
    "for step in range(4):\n    x = torch.randn(6, 5, 4)\n    scores = x @ net(x).mT\n    {}\n"
    "    loss = F.cross_entropy(head(h.mean(1)), torch.arange(6) % 2)" + TRAIN
)
USERS = HEAD + (
    "net, bias = nn.Linear(4, 3), nn.Embedding(7, {})\n"
    "optimizer = torch.optim.Adam([*net.parameters(), *bias.parameters()])\n"
    "for step in range(4):\n    x, user = torch.randn(8, 4), torch.randint(0, 7, (8,))\n"
    "    scores = net(x) + bias(user){}\n    loss = F.cross_entropy(scores, x.argmax(1) % 3)" + TRAIN
)
PAIRS = HEAD + (
    "nets = {{'price': nn.Linear(4, 1), 'demand': nn.Linear(4, 1)}}\n"
    "optimizers = [torch.optim.SGD(nets[name].parameters(), lr=0.1) for name in {}]{}\n"
    "for step in range(4):\n    x = torch.randn(8, 4)\n    for net, optimizer in zip(nets.values(), optimizers):\n"
    "        optimizer.zero_grad()\n        net(x).square().mean().backward()\n        optimizer.step()\n"
)

SLOPES = HEAD + (
    "from torch.func import grad, hessian, jacfwd, jvp, vmap\n"
    "net = nn.Sequential(nn.Linear(2, 8), {}, nn.Linear(8, 1)){}\n"
    "optimizer = torch.optim.Adam(net.parameters())\n"
    "def value(p):\n    return net(p).squeeze(-1)\n"
    "for step in range(3):\n    x = torch.rand(6, 2)\n    bend = {}\n"
    "    loss = 0.1 * (bend - x[:, 0].sin()).square().mean() + net(torch.ones(1, 2)).square().mean()" + TRAIN
)
HESSIAN = "vmap(hessian(value))(x).diagonal(dim1=1, dim2=2).sum(1)"

RATIO = HEAD + (
    "net = nn.Linear(4, 3)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    "def surrogate(logp_old, logp_new, gain):\n    ratio = {}\n"
    "    return torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()\n"
    "def picked(x, a):\n    return net(x).log_softmax(1).gather(1, a[:, None]).squeeze(1)\n"
    "for step in range(3):\n    x, a, gain = torch.randn(8, 4), torch.randint(0, 3, (8,)), torch.randn(8)\n"
    "    with torch.no_grad():\n        before = picked(x, a)\n"
    "    for again in range(3):\n        fresh = picked(x, a)\n"
    "        loss = -surrogate({})  # HERE\n        optimizer.zero_grad()\n        loss.backward()\n"
    "        optimizer.step()\n"
)
WARM_UP = HEAD + (
    "net = nn.Linear(4, 1)\noptimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)\n"
    "factors = iter([min(1.0, k / {warm}) for k in range(1, 99)])\n"
    "for epoch in range(5):\n    for group in optimizer.param_groups:\n"
    "        group['lr'] = 3e-3 * next(factors)  # HERE\n    for step in range(8):\n"
    "        x = torch.randn(8, 4)\n        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()\n"
    "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"
)
VIEWS = HEAD + (
    "def jitter(x):\n    {}\n\n"
    "net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))\n"
    "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    "for step in range(5):\n    x = torch.randn(8, 4)\n    y = x.argmax(1) % 3\n    batch = x * 1.0\n"
    "    one, other = jitter(batch), jitter(batch)\n    one, other = net(one), net(other)\n"
    "    loss = F.cross_entropy(net(x), y) + 2 * F.mse_loss(one.softmax(1), other.softmax(1))" + TRAIN
)

FAULTS = {
    "an old value with a gradient": (
        "arguments_in_other_order", RATIO.format("(logp_new - logp_old).exp()", "fresh, before, gain"),
    ),
    "an old value with a gradient, by torch.exp and sub": (
        "arguments_in_other_order", RATIO.format("torch.exp(logp_new.sub(logp_old))", "fresh, before, gain"),
    ),
    "a warm-up of steps that is taken once for each epoch": (
        "warmup_never_ends", "WARMUP_STEPS = 12" + WARM_UP.format(warm="WARMUP_STEPS"),
    ),
    "two views of one tensor that is changed in place": (
        "term_always_zero", VIEWS.format("return x.add_(0.1 * torch.randn_like(x))  # HERE"),
    ),
    "two views by a sum in place": (
        "term_always_zero", VIEWS.format("x += 0.1 * torch.randn_like(x)  # HERE\n    return x"),
    ),
    "a hessian of straight lines": ("second_derivative_zero", SLOPES.format("nn.LeakyReLU()", "  # HERE", HESSIAN)),
    "a derivative forward of a gradient": (
        "second_derivative_zero",
        SLOPES.format("nn.LeakyReLU()", "  # HERE", "vmap(lambda p: jvp(grad(value), (p,), (p,))[1][0])(x)"),
    ),
    "two derivatives forward": (
        "second_derivative_zero",
        SLOPES.format("nn.LeakyReLU()", "  # HERE", "vmap(jacfwd(jacfwd(value)))(x)[:, 0, 0]"),
    ),
    "a value of the next step that a function is given": (
        "gradient_into_target",
        HEAD
        + (
            "critic = nn.Linear(3, 1)\noptimizer = torch.optim.SGD(critic.parameters(), lr=0.1)\n"
            "def returns_of(rewards, values):\n    after, out = values[-1], []\n"
            "    for r, v in zip(reversed(rewards.unbind()), reversed(values[1:].unbind())):\n"
            "        after = r + 0.9 * torch.lerp(v, after, 0.8)\n        out.append(after)\n"
            "    return torch.stack(out[::-1])\n"
            "for step in range(3):\n    states, rewards = torch.randn(6, 8, 3), torch.randn(5, 8)\n"
            "    values = critic(states).squeeze(-1)\n    goal = returns_of(rewards, values)  # HERE\n"
            "    loss = F.smooth_l1_loss(values[:-1], goal)"
        )
        + TRAIN,
    ),
    "an offset without the axis of the softmax": (
        "only_rounding", SCORES.format("5, 1", "h = (scores + offset).softmax(-1) @ x  # HERE"),
    ),
    "an offset of each query, subtracted in place, with a mask": (
        "only_rounding",
        SCORES.format(
            "5",
            "scores = scores.sub_(offset[:, None])  # HERE\n"
            "    h = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -1e9).div(2.0).softmax(-1) @ x",
        ),
    ),
    "an offset of each sample before a cross entropy": ("only_rounding", USERS.format(1, "  # HERE")),
    "optimizers in the order of the alphabet": (
        "wrong_optimizer", PAIRS.format("sorted(nets)", "  # HERE"),
    ),
    "optimizers in the opposite order, from a function": (
        "wrong_optimizer", PAIRS.format("reversed(list(nets))", "  # HERE"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_it_is_told_in_other_words(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    assert_first_alarm(script, cause, tmp_path)


HEALTHY = {
    "a bias that cancels beside a hinge that is satisfied": HEAD
    + """
phi = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))
optimizer = torch.optim.SGD(phi.parameters(), lr=0.01)
def height(x):
    return (phi(x) - phi(torch.zeros(1, 2))).square().sum(1) + 1
for step in range(4):
    x = torch.randn(16, 2)
    loss = torch.relu(height(2 * x) - 0.5 * height(x)).mean() + torch.relu(0.5 - height(x)).mean()
"""
    + TRAIN,
    "an old value without a gradient": RATIO.format("(logp_new - logp_old).exp()", "before, fresh, gain"),
    "a warm-up of epochs that ends": WARM_UP.format(warm="4"),
    "two views": VIEWS.format("return x.add(0.1 * torch.randn_like(x))"),
    "a hessian of a smooth network": SLOPES.format("nn.Tanh()", "", HESSIAN),
    "a slope of straight lines": SLOPES.format("nn.LeakyReLU()", "", "vmap(jacfwd(value))(x).sum(1)"),
    "an offset of each key": SCORES.format("5, 5", "h = (scores + offset).softmax(-1) @ x"),
    "an offset before a sigmoid": SCORES.format("5, 1", "h = (scores + offset).sigmoid() @ x"),
    "an offset whose scores are used once more": SCORES.format(
        "5, 1", "s = scores + offset\n    h = s.softmax(-1) @ x + 0.1 * s.logsumexp(-1, keepdim=True)"
    ),
    "the bias of a layer by hand, before a softmax over time": HEAD
    + (
        "weight, bias = (nn.Parameter(0.1 * torch.randn(*shape)) for shape in ((4, 3), (3,)))\n"
        "head = nn.Linear(12, 2)\noptimizer = torch.optim.SGD([weight, bias, *head.parameters()], lr=0.1)\n"
        "for step in range(4):\n    x = torch.randn(6, 5, 4)\n    shares = (x @ weight + bias).softmax(1)\n"
        "    loss = F.cross_entropy(head((shares.mT @ x).flatten(1)), torch.arange(6) % 2)"
    )
    + TRAIN,
    "a factor of each query": SCORES.format("5, 1", "h = (scores * offset).softmax(-1) @ x"),
    "one number for all scores": SCORES.format("1", "h = (scores + offset).softmax(-1) @ x"),
    "an offset of each class": USERS.format(3, ""),
    "optimizers in the order of their models": PAIRS.format("nets", ""),
    "a step every second time": HEAD
    + (
        "one, two = nn.Linear(4, 1), nn.Linear(1, 1)\n"
        "of_one, of_two = (torch.optim.SGD(net.parameters(), lr=0.1) for net in (one, two))\n"
        "for step in range(6):\n    x = torch.randn(8, 4)\n    (two(one(x).detach()) - 1).square().mean().backward()\n"
        "    of_two.step()\n    of_two.zero_grad()\n    if step % 2:\n        one(x).square().mean().backward()\n"
        "        of_one.step()\n        of_one.zero_grad()\n"
    ),
    "a term for other features that goes backward alone": HEAD
    + (
        "net, head = nn.Linear(4, 3), nn.Linear(3, 2)\n"
        "optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)\n"
        "for step in range(4):\n    x = torch.randn(8, 4)\n    z = net(x)\n    c = z - z.mean(0)\n"
        "    table = torch.einsum('bi,bj->ij', c, c) / 7\n    other = table - torch.diag(table.diagonal())\n"
        "    optimizer.zero_grad()\n    F.cross_entropy(head(z), torch.arange(8) % 2).backward(retain_graph=True)\n"
        "    (0.5 * other.square().sum()).backward()\n    optimizer.step()\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_what_only_looks_like_it_is_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
