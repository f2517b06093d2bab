"""Of several lines that may be why a gradient is missing or wrong, the one is blamed that nobody writes on purpose; and
what is written on purpose in a healthy program raises no alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import TRAIN, alarms, assert_first_alarm
from tests.integration.rules.test_last_net import findings

HEAD = """
import torch
from torch import nn
from torch.nn.functional import mse_loss as mse
torch.manual_seed(0)
net, head = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8)), nn.Linear(8, 1)
opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=0.01)
"""
LOOP = HEAD + "for step in range(3):\n    x, y = torch.randn(16, 4), torch.randn(16, 1)\n"
STEP = "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"

FAULTS = {
    "a term is cut off beside an advantage": (
        LOOP + "    with torch.no_grad():\n        advantage = y - head(net(x))\n"
        "    value = mse(head(net(x)), y).detach()  # here\n"
        "    loss = value + (net(x) * advantage).mean()\n" + STEP,
        "detached",
    ),
    "a loss is made a leaf": (
        LOOP + "    loss = mse(head(net(x)), y)\n    loss = loss.detach().requires_grad_()  # here\n"
        + STEP,
        "detached",
    ),
    "a loss is made a leaf beside one that is not": (
        LOOP + "    other = net(x).square().mean()\n    opt.zero_grad()\n    other.backward()\n"
        "    loss = mse(head(net(x).detach()), y).detach().requires_grad_()  # here\n" + STEP,
        "detached",
    ),
    "a loss is assigned again": (
        LOOP + "    loss = mse(head(net(x)), y)\n"
        "    loss = 0.1 * net(x).square().mean()  # here\n" + STEP,
        "unused_parameter",
    ),
    "a loss is computed and left out, beside a cut that is meant": (
        LOOP + "    h = net(x)\n    error = mse(head(h.detach()), y)  # here\n"
        "    loss = h.square().mean()\n" + STEP,
        "unused_parameter",
    ),
    "a weight that forward makes anew and registers": (
        LOOP + "    net[0].weight = nn.Parameter(net[2](net[0].weight.mT).mT)  # here\n"
        "    loss = mse(head(net[0](x)), y)\n" + STEP,
        "tensor_rewrap",
    ),
    "results are put into new parameters of another model": (
        LOOP + "    weights, start = {}, 0\n    for name, shape in ((\"w\", (1, 4)), (\"b\", (4,))):\n"
        "        part = net(x).mean(0)[start : start + 4]\n"
        "        weights[name] = nn.Parameter(part.view(shape))  # here\n        start += 4\n"
        "    loss = mse(x @ weights[\"w\"].mT + weights[\"b\"][:1], y) + head(torch.randn(16, 8)).square().mean()\n"
        + STEP,
        "tensor_rewrap",
    ),
    "one of two paths goes through a list": (
        LOOP + "    near = (net(x) - net(-x)).square().sum(1)\n"
        "    far = torch.tensor((net(x) - net(x + 1)).square().sum(1).tolist())  # here\n"
        "    loss = torch.relu(near - far + 1).mean() + head(net(x)).mean()\n" + STEP,
        "tensor_rewrap",
    ),
    "one of two paths goes through a list of many numbers": (
        LOOP + "    h = torch.tensor(net(x.repeat(20, 1)).tolist())  # here\n"
        "    loss = head(h).square().mean() + head(net(x)).mean()\n" + STEP,
        "tensor_rewrap",
    ),
    "one of two paths goes through NumPy": (
        LOOP + "    h = net(x)\n    gate = torch.from_numpy(torch.sigmoid(head(h)).detach().numpy())  # here\n"
        "    loss = (gate * h).sub(y).square().mean() + head(net(x)).mean()\n" + STEP,
        "numpy_roundtrip",
    ),
    "one of two paths is rounded": (
        LOOP + "    h = net(x)\n    g = h.round()  # here\n    loss = g.square().mean() + mse(head(net(x)), y)\n"
        + STEP,
        "zero_gradient_op",
    ),
    "one of two paths is bounded far outside": (
        LOOP + "    h = net(x).clamp(min=100.0)  # here\n    loss = mse(head(h), y) + net(x).square().mean()\n" + STEP,
        "saturation",
    ),
    "a model is evaluated in training mode": (
        LOOP.replace("nn.Tanh()", "nn.Dropout(0.5)") + "    loss = mse(head(net(x)), y)\n" + STEP
        + "    net.train()  # here\n    with torch.no_grad():\n        print(mse(head(net(x)), y).item())\n",
        "training_mode",
    ),
    "a result is written through data": (
        LOOP + "    h = net(x) + 1\n    h.data.mul_(0.5)  # here\n    loss = (h + head(x @ torch.ones(4, 8))).mean()\n"
        + STEP,
        "data_access",
    ),
    "NumPy is refused": (
        LOOP + "    h = net(x)\n    print(h.numpy())  # here\n    loss = head(h).mean()\n" + STEP,
        "numpy_roundtrip",
    ),
    "a frozen tensor in an optimizer beside a cut that is meant": (
        HEAD + "alpha = torch.zeros(1)  # here\nfor_alpha = torch.optim.Adam([alpha])\n"
        "for step in range(2):\n    loss = head(net(torch.randn(16, 4))).square().mean()\n" + STEP
        + "    (alpha * loss.detach()).sum().backward()\n    for_alpha.step()\n",
        "requires_grad_false",
    ),
    "a closure without gradients": (
        "import torch\nw = torch.ones(3, requires_grad=True)\nopt = torch.optim.LBFGS([w])\n@torch.no_grad()  # here\n"
        "def closure():\n    opt.zero_grad()\n    loss = (w - 2).square().sum()\n    loss.backward()\n    return loss\n"
        "opt.step(closure)\n",
        "no_grad_block",
    ),
    "the graph of a gradient is freed": (
        LOOP + "    x.requires_grad_()\n    score = head(net(x)).sum()\n"
        "    (g,) = torch.autograd.grad(score, x, create_graph=True, retain_graph=False)  # here\n"
        "    loss = (g.norm(dim=1) - 1).square().mean()\n" + STEP,
        "graph_freed",
    ),
    "one term is not reduced": (
        LOOP + "    error = (head(net(x)) - y).square()  # here\n    loss = net(x).square().mean() + 0.5 * error\n"
        + STEP,
        "grad_argument",
    ),
    "a loss is kept for three steps": (
        HEAD + "kept = []\n" + LOOP.removeprefix(HEAD) + "    loss = head(net(x)).square().mean()\n"
        "    kept.append(loss)  # here\n" + STEP,
        "graph_retained_leak",
    ),
    "a whole model beside another one is frozen": (
        HEAD.replace("opt =", "net.requires_grad_(False)  # here\nopt =") + LOOP.removeprefix(HEAD)
        + "    loss = mse(head(net(x)), y)\n" + STEP,
        "requires_grad_false",
    ),
    "an inner loop by hand does not clear its gradient": (
        LOOP + "    delta = torch.zeros_like(x, requires_grad=True)\n    for _ in range(2):\n"
        "        head(net(x + delta)).mean().backward()  # here\n"
        "        delta.data = delta + 0.1 * delta.grad.sign()\n"
        "    opt.zero_grad()\n    loss = head(net(x + delta.detach())).square().mean()\n" + STEP,
        "missing_zero_grad",
    ),
    "an undivided accumulation is clipped": (
        LOOP.replace("range(3)", "range(8)") + "    loss = mse(head(net(x)), y)\n"
        "    loss.backward()  # here\n    if step % 2:\n        nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
        "        opt.step()\n        opt.zero_grad()\n",
        "accumulation_undivided",
    ),
    "a clipped model is in no optimizer": (
        HEAD.replace("[*net.parameters(), *head.parameters()], lr=0.01)", "head.parameters(), lr=0.01)  # here")
        + LOOP.removeprefix(HEAD)
        + "    loss = head(net(x)).square().mean()\n    opt.zero_grad()\n    loss.backward()\n"
        "    nn.utils.clip_grad_norm_([*net.parameters(), *head.parameters()], 0.5)\n    opt.step()\n",
        "not_stepped",
    ),
    "a term is made of a choice, and of values that nothing trains": (
        LOOP.replace("opt =", "fixed = nn.Linear(8, 8)\nopt =")
        + "    h = net(x)\n    choice = nn.functional.one_hot(h.argmax(1), 8).float()  # here\n"
        "    with torch.no_grad():\n        values = fixed(x.repeat(1, 2))\n"
        "    loss = -(choice * values).sum(1).mean() + mse(head(net(x)), y)\n" + STEP,
        "term_without_gradient",
    ),
    "the scale of a reparametrized draw is cut off": (
        LOOP + "    h = net(x)\n    mean, log_std = h.tanh(), head(h)\n    std = log_std.exp().detach()  # here\n"
        "    z = mean + std * torch.randn_like(mean)\n"
        "    loss = mse(z, y.expand(-1, 8)) + (log_std.exp() - log_std).mean()\n" + STEP,
        "sampled_without_gradient",
    ),
    "the mean of a reparametrized draw is cut off": (
        LOOP + "    mean, log_std = net(x), nn.functional.softplus(head(x.repeat(1, 2)))\n"
        "    noise = torch.randn(16, 8)\n"
        "    z = mean.data + noise * log_std  # here\n"
        "    loss = mse(z, y.expand(-1, 8)) + mean.square().mean() + (log_std - 1).square().mean()\n" + STEP,
        "sampled_without_gradient",
    ),
}  # fmt: skip

HEALTHY = {
    "noise as large as the features that it is added to": LOOP
    + "    h = net(x)\n    noisy = h + 0.1 * h.detach().abs() * torch.randn_like(h)\n    loss = mse(head(noisy), y)\n"
    + STEP,
    "noise with a scale of its own that another loss trains": LOOP
    + "    h = net(x)\n    noisy = head(h.detach()).detach() * torch.randn(16, 1) + x.sum(1, keepdim=True)\n"
    "    loss = mse(head(h.detach()), noisy) + h.square().mean()\n" + STEP,
    "an advantage through NumPy": LOOP
    + "    value = head(net(x))\n    advantage = y - torch.from_numpy(value.detach().numpy())\n"
    "    loss = (net(x) * advantage).mean() + (value - y).square().mean()\n" + STEP,
    "a signed root": LOOP + "    h = net(x)\n    loss = mse(head(h.sign() * (h.abs() + 1e-6).sqrt()), y)\n" + STEP,
    "a margin that no value exceeds": LOOP
    + "    h = net(x)\n    loss = mse(head(h), y) + h.square().clamp(min=50.0).sum(1).mean()\n" + STEP,
    "an average over dropout": LOOP.replace("nn.Tanh()", "nn.Dropout(0.5)") + "    loss = mse(head(net(x)), y)\n" + STEP
    + "    with torch.no_grad():\n        print(torch.stack([net(x) for _ in range(4)]).std(0).mean().item())\n",
    "a loss that is printed and not used": LOOP
    + "    loss = mse(head(net(x)), y)\n    other = net(x).abs().mean()\n    print(f'{other:.2f}')\n"
    + STEP,
    "a head on features that are cut off on purpose": LOOP
    + "    h = net(x)\n    loss = h.square().mean() + mse(head(h.detach()), y)\n" + STEP,
    "a frozen part of one model in the optimizer": LOOP.replace("opt =", "net[0].requires_grad_(False)\nopt =")
    + "    loss = mse(head(net(x)), y)\n" + STEP,
    "the last two losses are kept": HEAD + "import collections\nkept = collections.deque(maxlen=2)\n"
    + LOOP.removeprefix(HEAD) + "    loss = head(net(x)).square().mean()\n    kept.append(loss)\n" + STEP,
    "the log-density of a sample, with a mean and a scale that are constants": LOOP
    + "    mu, logvar = net(x)[:, :2], net(x)[:, 2:4]\n    z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)\n"
    "    m, s = mu.detach(), logvar.detach()\n    log_q = -0.5 * (s + (z - m).square() / s.exp()).sum(1)\n"
    "    loss = mse(head(torch.cat([z, z * x[:, :1], net(x)[:, 4:]], 1)), y) + log_q.mean()\n" + STEP,
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_the_line_that_nobody_means_is_blamed(name: str, tmp_path: Path) -> None:
    script, cause = FAULTS[name]
    wanted = next(number for number, line in enumerate(script.splitlines(), 1) if line.endswith("# here"))
    first, *_ = findings(script, tmp_path)
    assert (first.cause, first.location and first.location.line) == (cause, wanted)


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_written_on_purpose_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert [found for found in findings(HEALTHY[name], tmp_path) if found.is_alarm] == []


DENSITY = """
import torch
from torch import nn
from torch.distributions import Normal
torch.manual_seed(0)
net, spread = nn.Linear(4, 3), nn.Linear(4, 1)
opt = torch.optim.Adam([*net.parameters(), *spread.parameters()], lr=0.01)
for step in range(4):
    x = torch.randn(16, 4)
    y = x[:, :3] + 0.1 * torch.randn(16, 3)
    {made}
    loss = -Normal(net(x) * (1 / 3) ** 0.5, {scale}).log_prob(y).sum(1).mean() + spread(x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item(), y.std().item())
"""


@pytest.mark.parametrize("scale", ["0.1", "torch.full((3,), 0.2)", "torch.tensor([0.1, 0.2, 0.3])"])
def test_a_scale_does_not_come_from_the_mean_with_which_its_shape_is_aligned(scale: str, tmp_path: Path) -> None:
    assert [each.cause for each in findings(DENSITY.format(made="", scale=scale), tmp_path) if each.is_alarm] == []


def test_a_scale_that_is_cut_off_is_told(tmp_path: Path) -> None:
    made = "width = spread(x).exp().mean().item()"
    found = [each.cause for each in findings(DENSITY.format(made=made, scale="width"), tmp_path) if each.is_alarm]
    assert "term_without_gradient" in found


SAMPLER = """
def langevin(model, x):
    model.requires_grad_(False)
    for _ in range(3):
        x = x.detach().requires_grad_(True)
        (slope,) = torch.autograd.grad(model(x).sum(), x)
        x = x - 0.1 * slope
    model.requires_grad_(True)
    return x.detach()
@torch.no_grad()  # HERE
def draw(model):
    return langevin(model, torch.rand(16, 2))
model = nn.Sequential(nn.Linear(2, 8), nn.SiLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
for step in range(4):
    loss = model(torch.randn(16, 2)).mean() - model(draw(model)).mean()
"""


def test_a_derivative_by_an_input_with_gradients_off_is_no_matter_of_frozen_weights(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + SAMPLER + TRAIN, "no_grad_block", tmp_path)
    assert not alarms(HEAD + SAMPLER.replace("@torch.no_grad()  # HERE\n", "") + TRAIN, tmp_path)
