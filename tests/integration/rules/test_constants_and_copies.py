"""Means that cancel out, derivatives through a normalization, momentum without a copy, scaled gradients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

POOLED = (
    HEAD + "f, head = nn.Linear(6, 8), nn.Linear(8, 3)\n"
    "optimizer = torch.optim.SGD([*f.parameters(), *head.parameters()], lr=0.1)\n"
    "for step in range(4):\n    x, y = torch.randn(16, 5, 6), torch.randint(0, 3, (16,))\n    h = f(x)\n"
    "    {}\n    loss = F.cross_entropy(head(h.mean(1)), y)" + TRAIN
)
CRITIC = (
    HEAD + "net = nn.Sequential(nn.Linear(2, 8), {}, nn.Tanh(), nn.Linear(8, 1))\n"
    "optimizer = torch.optim.Adam(net.parameters())\nfor step in range(4):\n"
    "    x = torch.randn(16, 2, requires_grad=True)\n    {}\n    u = net(h){}\n"
    "    g, = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)\n"
    "    loss = u.mean() + (g.norm(dim=1) - 1).square().mean()" + TRAIN
)
BY_HAND = (
    HEAD + "w, b = torch.randn(4, 2).requires_grad_(), torch.zeros(2).requires_grad_()\nkept = {{}}\n"
    "for step in range(4):\n    for p in (w, b):\n        if p.grad is not None:\n            p.grad.zero_()\n"
    "    (torch.randn(8, 4) @ w + b - 1).square().mean().backward()\n    with torch.no_grad():\n"
    "        for p in (w, b):\n            {}\n            if p not in kept:\n                kept[p] = {}\n"
    "            kept[p].mul_(0.9){}\n            p -= 0.1 * kept[p]\n"
)
MATCHED = (
    HEAD + "f, head = nn.Linear(6, 8), nn.Linear(8, 3)\nnorm = {}\n"
    "optimizer = torch.optim.Adam([*f.parameters(), *norm.parameters(), *head.parameters()], lr=0.01)\n"
    "for step in range(4):\n    x, y, other = torch.randn(16, 6), torch.randint(0, 3, (16,)), torch.randn(16, 6)\n"
    "    one, two = norm(f(x)), norm(f(other))\n"
    "    loss = F.cross_entropy(head(one), y) + {}" + TRAIN
)
POOLED_BLOCK = (
    HEAD + "conv, head = nn.Conv1d(6, 8, 3), nn.Linear(8, 3)\nnorm = nn.InstanceNorm1d(8, affine=True)  # HERE\n"
    "optimizer = torch.optim.Adam([*conv.parameters(), *norm.parameters(), *head.parameters()], lr=0.01)\n"
    "for step in range(4):\n    x, y = torch.randn(16, 6, 9), torch.randint(0, 3, (16,))\n"
    "    h = F.adaptive_avg_pool1d(norm(conv(x)){}, 1).flatten(1)\n    loss = F.cross_entropy(head(h), y)" + TRAIN
)
SCALED = (
    HEAD + "w = torch.ones(4, requires_grad=True)\noptimizer = torch.optim.SGD([w], lr=0.1)\n"
    "for step in range(4):\n    y = {}\n    z = {}\n"
    "    loss = (torch.randn(8, 4) * z - 1).square().mean()" + TRAIN
)

FAULTS = {
    "a mean of what had its own mean subtracted": (
        "cancels_to_zero", POOLED.format("h = (h - h.mean(1, keepdim=True)) / h.std(1, keepdim=True)  # HERE"),
    ),
    "a mean of what instance_norm has centered": (
        "cancels_to_zero", POOLED.format("h = F.instance_norm(h.mT).mT  # HERE"),
    ),
    "a mean over the batch of what batch_norm gives a trained mean": (
        "cancels_to_zero",
        MATCHED.format("nn.BatchNorm1d(8)  # HERE", "(one.mean(0) - two.mean(0)).square().sum()"),
    ),
    "a pool over the positions of what instance_norm gives a trained mean": (
        "cancels_to_zero",
        POOLED_BLOCK.format(""),
    ),
    "a gradient penalty through a batch normalization": (
        "batch_norm_mixes_points",
        CRITIC.format("nn.Identity()", "h = F.batch_norm(x, None, None, training=True)  # HERE", ""),
    ),
    "a gradient penalty through a deviation over the batch": (
        "batch_norm_mixes_points", CRITIC.format("nn.Identity()", "h = x / (x.std(0) + 1e-5)  # HERE", ""),
    ),
    "an average of gradients that is the gradient": (
        "momentum_is_gradient", BY_HAND.format("pass", "p.grad  # HERE", ".add_(p.grad)"),
    ),
    "an average of gradients that is a view of the gradient": (
        "momentum_is_gradient", BY_HAND.format("pass", "p.grad.detach()  # HERE", ".add_(p.grad, alpha=0.1)"),
    ),
    "a gradient that is scaled the wrong way round": (
        "straight_through_reversed", SCALED.format("w * 0.1", "(y - w).detach() + w  # HERE"),
    ),
    "a divided gradient that is scaled the wrong way round": (
        "straight_through_reversed", SCALED.format("w / 8", "w - (w - y).detach()  # HERE"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_constants_and_missing_copies_are_told(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    assert_first_alarm(script, cause, tmp_path)


HEALTHY = {
    "a mean over another axis than that of the normalization": POOLED.format("h = F.layer_norm(h, (8,))"),
    "a mean after an activation": POOLED.format("h = F.instance_norm(h.mT).mT.relu()"),
    "a sum of normalized advantages, whose first ratio is one": HEAD
    + "f = nn.Linear(6, 1)\noptimizer = torch.optim.SGD(f.parameters(), lr=0.1)\nfor step in range(4):\n"
    "    x = torch.randn(16, 6)\n    log = F.logsigmoid(f(x))[:, 0]\n    gain = x[:, 0]\n"
    "    gain = (gain - gain.mean()) / gain.std()\n    loss = -((log - log.detach()).exp() * gain).mean()" + TRAIN,
    "a mean over the features of what batch_norm made": MATCHED.format(
        "nn.BatchNorm1d(8)", "(one.mean(1) - two.mean(1)).square().sum()"
    ),
    "second moments over the batch of what batch_norm made": MATCHED.format(
        "nn.BatchNorm1d(8)", "(one.T @ one / 16 - two.T @ two / 16).square().sum()"
    ),
    "a pool over the positions of activations behind instance_norm": POOLED_BLOCK.format(".relu()"),
    "a mean over the batch of activations behind batch_norm": MATCHED.format(
        "nn.BatchNorm1d(8)", "(one.relu().mean(0) - two.relu().mean(0)).square().sum()"
    ),
    "a gradient penalty with a layer normalization": CRITIC.format("nn.LayerNorm(8)", "h = x", ""),
    "a gradient penalty in evaluation mode": CRITIC.format(
        "nn.Identity()", "h = F.batch_norm(x, torch.zeros(2), torch.ones(2))", ""
    ),
    "a critic that sees the deviation of its batch": CRITIC.format(
        "nn.Identity()", "h = x + 0.1 * x.std(0).mean().expand(16, 1)", ""
    ),
    "an average that begins with a copy": BY_HAND.format("pass", "p.grad.clone()", ".add_(p.grad)"),
    "an average that begins with zeros": BY_HAND.format("pass", "torch.zeros_like(p)", ".add_(p.grad)"),
    "gradients that are decayed and scaled in place": BY_HAND.format(
        "p.grad.mul_(0.5).add_(p, alpha=0.01)", "p.grad.clone()", ".add_(p.grad)"
    ),
    "a gradient that is scaled": SCALED.format("w * 0.1", "(w - y).detach() + y"),
    "a value and a gradient that are scaled": SCALED.format("w * 0.5", "y"),
    "a straight-through of rounding": SCALED.format("w * 2.3", "y + (y.round() - y).detach()"),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_looks_alike_and_is_right_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)


def test_a_mean_behind_averages_of_earlier_batches_depends_on_the_input(tmp_path: Path) -> None:
    script = MATCHED.format("nn.BatchNorm1d(8).eval()", "(one.mean(0) - two.mean(0)).square().sum()")
    assert [each.cause for each in alarms(script, tmp_path)] == ["evaluation_mode"]


CANCELLED_LAYERS = {
    "with a layer for each": """
class Scan(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = nn.Conv1d(2, 8, 3), nn.Conv1d(8, 8, 3), nn.Conv1d(8, 8, 3)
        self.norm = nn.InstanceNorm1d(8)
    def forward(self, x):
        h = F.leaky_relu(self.norm(self.one(x)), 0.1)
        h = F.leaky_relu(self.norm(self.two(h)), 0.1)
        return F.adaptive_avg_pool1d(self.norm(self.three(h)), 1).flatten(1)  # HERE
""",
    "with a mean of what is standardized in a helper": """
def standardized(h):
    return (h - h.mean(2, keepdim=True)) / (h.std(2, keepdim=True) + 1e-5)
class Scan(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(2, 8, 3), nn.Tanh(), nn.Conv1d(8, 8, 3), nn.Tanh(), nn.Conv1d(8, 8, 3))
    def forward(self, x):
        h = standardized(self.net(x))
        return h.mean(2)  # HERE
""",
    "with a sum over a list of blocks": """
class Scan(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Conv1d(2, 8, 3), nn.Conv1d(8, 8, 3), nn.Conv1d(8, 8, 3), nn.Conv1d(8, 8, 3)])
    def forward(self, x):
        for block in self.blocks:
            x = F.instance_norm(block(torch.relu(x)))  # HERE
        return torch.einsum("bct->bc", x) / x.shape[2]
""",
}
TWO_BRANCHES = (
    """
scan, table, head = Scan(), nn.Linear(6, 8), nn.Linear(16, 3)
optimizer = torch.optim.AdamW([*scan.parameters(), *table.parameters(), *head.parameters()])
for step in range(4):
    x, y = torch.randn(16, 2, 20), torch.randint(0, 3, (16,))
    loss = F.cross_entropy(head(torch.cat([scan(x), table(torch.randn(16, 6)).relu()], 1)), y)
"""
    + TRAIN
)


@pytest.mark.parametrize("name", CANCELLED_LAYERS)
def test_what_cancels_explains_that_gradients_vanish(name: str, tmp_path: Path) -> None:
    script = HEAD + CANCELLED_LAYERS[name] + TWO_BRANCHES
    assert_first_alarm(script, "cancels_to_zero", tmp_path)
    (found,) = alarms(script, tmp_path)
    assert all(name.startswith("scan.") for name in found.tensors)
