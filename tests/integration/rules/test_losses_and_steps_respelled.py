"""Losses without an influence of their targets, with the wrong sign or the wrong one of two, and steps by hand, in the
words of different people; and their healthy look-alikes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = HEAD + "model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))\n"
OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
LOOP = MODEL + OPTIMIZER + "for step in range(4):\n    x, y = torch.randn(16, 4), torch.randn(16, 3)\n"
AREAS = LOOP + "    p, truth = model(x).sigmoid(), (x[:, :3] > 0.3).float()\n"
TVERSKY = AREAS + (
    "    hit = torch.einsum('nk,nk->n', p, truth)\n    extra = torch.einsum('nk,nk->n', p, 1 - truth)\n"
    "    missed = torch.einsum('nk,nk->n', 1 - p, truth)\n"
)
PPO = LOOP + (
    "    chosen = torch.randint(0, 3, (16,))\n    gain = torch.randn(16)\n"
    "    log = F.log_softmax(model(x), 1).gather(1, chosen[:, None]).squeeze(1)\n"
    "    ratio = (log - log.detach() + 0.1 * torch.randn(16)).exp()\n    near = ratio.clip(0.8, 1.2)\n"
)
TASKS = MODEL + (
    "s = nn.Parameter(torch.zeros(2))\noptimizer = torch.optim.SGD([*model.parameters(), s], lr=0.01)\n"
    "for step in range(4):\n    x, y = torch.randn(16, 4), torch.randn(16, 3)\n    out = model(x)\n"
    "    terms = torch.stack([F.mse_loss(out, y), F.l1_loss(out, x[:, :3])])\n"
)
FOCAL = LOOP + "    label = (torch.rand(16) < 0.3).float()\n    logit = model(x)[:, 0]\n"
Q = (
    LOOP
    + (
        "    chosen, reward = torch.randint(0, 3, (16,)), torch.rand(16)\n    with torch.no_grad():\n        {}\n"
        "    now = model(x).gather(1, chosen[:, None]).squeeze(1)\n    loss = F.mse_loss(now, {})"
    )
    + TRAIN
)
BY_HAND = MODEL + (
    "params = list(model.parameters())\nmoments = [torch.zeros_like(p) for p in params]\nfor step in range(4):\n"
    "    x, y = torch.randn(16, 4), torch.randn(16, 3)\n    loss = F.mse_loss(model(x), y)\n    model.zero_grad()\n"
    "    loss.backward()\n    grads = [p.grad for p in params]\n{}    with torch.no_grad():\n        {}\n"
)
RMS = (
    "for p, v in zip(params, moments):\n            v.lerp_(p.grad.square(), 0.1)\n"
    "            p.addcdiv_(p.grad, v.sqrt() + 1e-6, value={})"
)
FUNCTIONAL = HEAD + (
    "def error(w, x, y):\n    return F.huber_loss(F.linear(x, w['a'], w['b']), y)\n"
    "slope = torch.func.grad_and_value(error)\nw = {{'a': torch.randn(3, 4), 'b': torch.zeros(3)}}\n"
    "for step in range(4):\n    d, loss = slope(w, torch.randn(16, 4), torch.randn(16, 3))\n    w = {}\n"
)
ENCODER = (
    HEAD
    + (
        "from typing import NamedTuple\nfrom collections import namedtuple\n{}class Encoder(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.loc = nn.Linear(4, 2)\n        self.scale = nn.Linear(4, 2)\n"
        "    def forward(self, x):\n        return Code({})\n"
        "encoder = Encoder()\noptimizer = torch.optim.SGD(encoder.parameters(), lr=0.01)\nfor step in range(3):\n"
        "    x = torch.randn(16, 4)\n    {}\n    z = loc + torch.randn_like(loc) * scale.exp()\n"
        "    loss = F.mse_loss(z, x[:, :2])"
    )
    + TRAIN
)
CLASS = "class Code(NamedTuple):\n    scale: torch.Tensor\n    loc: torch.Tensor\n"

FIELD = (
    HEAD
    + (
        "import warnings\n"
        "warnings.simplefilter('ignore')\n"
        "net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.01)\ndef u(p):\n    return net(p).squeeze(-1)\n"
        "def along(p, d):\n    return torch.func.jvp(u, (p,), (d.expand_as(p).contiguous(),))[1]\n"
        "for step in range(3):\n    p = torch.rand(16, 2)\n    {}\n    u_t = {}\n    u_x = {}\n"
        "    loss = (u_t + 0.5 * u_x - u(p)).square().mean()"
    )
    + TRAIN
)

TOLD = {
    "two jvp along one row of a table": (
        "same_derivative_twice", FIELD.format("axis = torch.eye(2)", "along(p, axis[1])  # HERE", "along(p, axis[1])")
    ),
    "two jvp along one direction": (
        "same_derivative_twice",
        FIELD.format("pass", "along(p, torch.tensor([1.0, 0.0]))", "along(p, torch.tensor([1.0, 0.0]))  # HERE"),
    ),
    "differences of lists, weighed and added up": (
        "target_without_influence",
        LOOP + "    out = model(x)\n    gaps = torch._foreach_sub([out[:, 0], out[:, 1]], [y[:, 0], y[:, 1]])  # HERE\n"
        "    loss = torch.dot(torch.stack([gap.mean() for gap in gaps]), torch.tensor([1.0, 0.5]))" + TRAIN,
    ),
    "a sum with a factor of -1": (
        "target_without_influence",
        LOOP + "    loss = torch.add(model(x), y, alpha=-1).mean()  # HERE" + TRAIN,
    ),
    "means of columns that are stacked": (
        "target_without_influence",
        LOOP + "    gap = torch.subtract(model(x), y)  # HERE\n"
        "    loss = (torch.stack([gap[:, k].mean() for k in range(3)]) * torch.tensor([1.0, 2.0, 0.5])).sum()" + TRAIN,
    ),
    "an index of Tversky of einsum": (
        "overlap_minimized",
        TVERSKY + "    loss = ((hit + 1) / (hit + 0.3 * extra + 0.7 * missed + 1)).mean()  # HERE" + TRAIN,
    ),
    "an index of Jaccard of true_divide": (
        "overlap_minimized",
        AREAS + "    hit = torch.vdot(p.flatten(), truth.flatten())\n"
        "    loss = torch.true_divide(hit, p.sum() + truth.sum() - hit)  # HERE" + TRAIN,
    ),
    "amax over a stack": (
        "optimistic_clip",
        PPO + "    gains = gain[:, None] * torch.stack((ratio, near), 1)\n"
        "    loss = -gains.amax(1).mean()  # HERE" + TRAIN,
    ),
    "max over a stack": (
        "optimistic_clip",
        PPO + "    loss = -torch.stack([ratio * gain, near * gain]).max(dim=0).values.mean()  # HERE" + TRAIN,
    ),
    "a choice by a comparison": (
        "optimistic_clip",
        PPO + "    one, other = ratio * gain, near * gain\n"
        "    loss = -torch.where(one > other, one, other).mean()  # HERE" + TRAIN,
    ),
    "precisions without their logarithm": (
        "weights_of_losses_fall", TASKS + "    loss = torch.dot(torch.exp(-s), terms)  # HERE" + TRAIN
    ),
    "variances that errors are divided by": (
        "weights_of_losses_fall", TASKS + "    loss = (terms / F.softplus(s).square()).sum()  # HERE" + TRAIN
    ),
    "weights in an einsum": (
        "weights_of_losses_fall", TASKS + "    loss = torch.einsum('i,i->', s.neg().exp(), terms)  # HERE" + TRAIN
    ),
    "a focal factor of a weighted mean": (
        "focal_factor_of_the_mean",
        FOCAL + "    share = torch.lerp(torch.tensor(0.25), torch.tensor(0.75), label)\n"
        "    nll = torch.mean(share * F.softplus((1 - 2 * label) * logit))  # HERE\n"
        "    loss = (-torch.expm1(-nll)) ** 2 * nll" + TRAIN,
    ),
    "a focal factor of a sum over the count": (
        "focal_factor_of_the_mean",
        FOCAL + "    nll = -F.logsigmoid((2 * label - 1) * logit).sum() / 16  # HERE\n"
        "    loss = (1 - torch.exp(-nll)).pow(2).mul(nll)" + TRAIN,
    ),
    "the index of topk": (
        "index_as_value",
        Q.format(
            "_, best = model(x).topk(1, dim=-1)  # HERE",
            "torch.addcmul(reward, torch.ones(16), best[:, 0], value=0.9)",
        ),
    ),
    "the index of sort": (
        "index_as_value",
        Q.format("best = model(x).sort(-1, descending=True)[1][:, 0]  # HERE", "torch.add(reward, best, alpha=0.9)"),
    ),
    "addcdiv_ up the gradient": ("steps_up_gradient", BY_HAND.format("", RMS.format("0.001") + "  # HERE")),
    "a momentum of falls that is taken off": (
        "steps_up_gradient",
        BY_HAND.format(
            "",
            "for p, m in zip(params, moments):\n            m.mul_(0.9).sub_(p.grad, alpha=0.01)\n"
            "            p.sub_(m)  # HERE",
        ),
    ),
    "the same of lists": (
        "steps_up_gradient",
        BY_HAND.format(
            "",
            "torch._foreach_mul_(moments, 0.9)\n        torch._foreach_sub_(moments, grads)\n"
            "        torch._foreach_add_(params, moments, alpha=-0.01)  # HERE",
        ),
    ),
    "a list up the gradient": (
        "steps_up_gradient", BY_HAND.format("", "torch._foreach_add_(params, grads, alpha=0.01)  # HERE")
    ),
    "new tensors up the gradient": (
        "steps_up_gradient", FUNCTIONAL.format("{k: v + 0.01 * d[k] for k, v in w.items()}  # HERE")
    ),
    "momentum that begins anew": (
        "optimizer_made_anew",
        BY_HAND.format(
            "    moments = [torch.zeros_like(p) for p in params]  # HERE\n",
            "torch._foreach_lerp_(moments, grads, 0.1)\n        torch._foreach_sub_(params, moments, alpha=0.01)",
        ),
    ),
    "momentum in a dict that begins anew": (
        "optimizer_made_anew",
        BY_HAND.format(
            "    speed = {k: torch.zeros(p.shape) for k, p in enumerate(params)}  # HERE\n",
            "for k, p in enumerate(params):\n            p.sub_(speed[k].mul_(0.9).add_(p.grad), alpha=0.01)",
        ),
    ),
    "momentum in a dict that is emptied": (
        "optimizer_made_anew",
        BY_HAND.format(
            "",
            "for k, p in enumerate(params):\n            state = {}  # HERE\n            if 'speed' not in state:\n"
            "                state['speed'] = torch.zeros_like(p)\n"
            "            state['speed'].mul_(0.9).add_(p.grad)\n            p.sub_(state['speed'], alpha=0.01)",
        ),
    ),
    "fields of a named tuple": (
        "arguments_in_other_order",
        ENCODER.format(CLASS, "loc=self.loc(x), scale=self.scale(x)", "loc, scale = encoder(x)  # HERE"),
    ),
    "fields of namedtuple()": (
        "arguments_in_other_order",
        ENCODER.format(
            "Code = namedtuple('Code', 'scale loc')\n",
            "loc=self.loc(x), scale=self.scale(x)",
            "loc, scale = encoder(x)  # HERE",
        ),
    ),
    "a named tuple that is filled the other way": (
        "arguments_in_other_order",
        ENCODER.replace("return Code(", "loc, scale = self.loc(x), self.scale(x)\n        return Code(")
        .format(CLASS, "loc, scale)  # HERE\n        print(", "scale, loc = encoder(x)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_it_is_told_in_other_words(name: str, tmp_path: Path) -> None:
    cause, script = TOLD[name]
    assert_first_alarm(script, cause, tmp_path)


HEALTHY = {
    "jvp along both rows of a table": FIELD.format("axis = torch.eye(2)", "along(p, axis[0])", "along(p, axis[1])"),
    "jvp along two directions": FIELD.format(
        "pass", "along(p, torch.tensor([1.0, 0.0]))", "along(p, torch.tensor([0.0, 1.0]))"
    ),
    "one jvp by two names": FIELD.format("d = torch.tensor([1.0, 0.0])", "along(p, d)", "u_t"),
    "differences of lists that are squared": LOOP
    + "    gaps = torch._foreach_sub([model(x)[:, 0]], [y[:, 0]])\n    loss = gaps[0].square().mean()" + TRAIN,
    "a mean beside a square": LOOP
    + "    gap = model(x) - y\n    loss = gap[:, 0].square().mean() + gap[:, 0].mean() + gap.square().mean()" + TRAIN,
    "an index of Tversky that is maximized": TVERSKY
    + "    loss = 1 - ((hit + 1) / (hit + 0.3 * extra + 0.7 * missed + 1)).mean()" + TRAIN,
    "amin over a stack": PPO
    + "    gains = gain[:, None] * torch.stack((ratio, near), 1)\n    loss = -gains.amin(1).mean()" + TRAIN,
    "a choice of the worse one": PPO
    + "    one, other = ratio * gain, near * gain\n    loss = -torch.where(one < other, one, other).mean()" + TRAIN,
    "precisions with their logarithm": TASKS + "    loss = torch.dot(torch.exp(-s), terms) + s.sum()" + TRAIN,
    "weights that go up": TASKS.replace("[*model.parameters(), s], lr=0.01", "[*model.parameters()], lr=0.01")
    + "    loss = torch.dot(s.softmax(0), terms)" + TRAIN
    + "    with torch.no_grad():\n        s.add_(terms, alpha=0.1)\n",
    "a focal factor of each sample": FOCAL
    + "    nll = F.softplus((1 - 2 * label) * logit)\n    loss = ((-torch.expm1(-nll)) ** 2 * nll).mean()" + TRAIN,
    "the value of topk": Q.format(
        "best, _ = model(x).topk(1, dim=-1)", "torch.addcmul(reward, torch.ones(16), best[:, 0], value=0.9)"
    ),
    "addcdiv_ down the gradient": BY_HAND.format("", RMS.format("-0.001")),
    "a list down the gradient": BY_HAND.format("", "torch._foreach_add_(params, grads, alpha=-0.01)"),
    "new tensors down the gradient": FUNCTIONAL.format("{k: v - 0.01 * d[k] for k, v in w.items()}"),
    "inputs that an attack moves up the loss": LOOP
    + "    parts = [x[:, :2], x[:, 2:]]\n    for _ in range(3):\n"
    "        parts = [part.detach().requires_grad_() for part in parts]\n"
    "        slopes = torch.autograd.grad(F.mse_loss(model(torch.cat(parts, 1)), y), parts)\n"
    "        parts = [part + 0.01 * slope.sign() for part, slope in zip(parts, slopes)]\n"
    "    loss = F.mse_loss(model(torch.cat(parts, 1).detach()), y)" + TRAIN,
    "momentum that is kept": BY_HAND.format(
        "", "torch._foreach_lerp_(moments, grads, 0.1)\n        torch._foreach_sub_(params, moments, alpha=0.01)"
    ),
    "a momentum of falls that is added": BY_HAND.format(
        "",
        "for p, m in zip(params, moments):\n            m.mul_(0.9).sub_(p.grad, alpha=0.01)\n            p.add_(m)",
    ),
    "a momentum that is taken off": BY_HAND.format(
        "",
        "for p, m in zip(params, moments):\n            m.mul_(0.9).add_(p.grad)\n            p.sub_(m, alpha=0.01)",
    ),
    "sums of gradients that begin anew": BY_HAND.format(
        "    moments = [torch.zeros_like(p) for p in params]\n",
        "torch._foreach_add_(moments, grads)\n        torch._foreach_sub_(params, moments, alpha=0.01)",
    ),
    "zeros that a comprehension makes and uses": BY_HAND.format(
        "", "[p.sub_(torch.zeros_like(p).lerp_(p.grad, 0.1)) for p in params]"
    ),
    "fields of a named tuple in order": ENCODER.format(
        CLASS, "loc=self.loc(x), scale=self.scale(x)", "scale, loc = encoder(x)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_what_only_looks_like_it_is_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
