"""Terms of a loss that a loop computes, and of which each replaces the one before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

STEPS = (
    HEAD
    + """
cell, head = nn.GRUCell(4, 8), nn.Linear(8, 3)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)
for step in range(4):
    x, y, h = torch.randn(6, 5, 4), torch.randint(0, 3, (6, 5)), torch.zeros(6, 8)
{}
"""
    + TRAIN
)
LAYERS = (
    HEAD
    + """
class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 3)
        self.experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
    def forward(self, x):
        p = self.gate(x).softmax(-1)
        y = sum(p[:, i : i + 1] * each(x) for i, each in enumerate(self.experts))
        {kept} = 3 * p.mean(0).square().sum()
        return x + y, {kept}
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(6), Experts()
    def forward(self, x):
        return self.mix(self.norm(x))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(3)), nn.Linear(6, 1)
    def forward(self, x):
        total = 0.0
        for block in self.blocks:
{loop}
        return self.head(x), total
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    answer, balance = net(torch.randn(8, 6))
    loss = answer.square().mean() + 0.1 * balance
"""
    + TRAIN
)
FAULTY = {
    "time steps": STEPS.format(
        "    for t in range(5):\n        h = cell(x[:, t], h)\n        loss = F.cross_entropy(head(h), y[:, t])  # HERE"
    ),
    "time steps, by hand": STEPS.format(
        "    for now, target in zip(x.unbind(1), F.one_hot(y, 3).float().unbind(1)):\n        h = cell(now, h)\n"
        "        loss = (head(h) - target).pow(2).mean()  # HERE"
    ),
    "batches, with the backward behind the loop": STEPS.format(
        "    for now, target in zip(x.split(2), y.split(2)):\n        h = cell(now[:, 0], torch.ones(2, 8))\n"
        "        loss = nn.CrossEntropyLoss()(head(h), target[:, 0])  # HERE"
    ),
    "a term for each layer": LAYERS.format(kept="extra", loop="            x, total = block(x)  # HERE"),
    "the same from an attribute": LAYERS.format(
        kept="self.extra", loop="            x, _ = block(x)  # HERE\n            total = block.mix.extra"
    ),
}
HEALTHY = {
    "terms that are added up": STEPS.format(
        "    loss = 0\n    for t in range(5):\n        h = cell(x[:, t], h)\n"
        "        loss = loss + F.cross_entropy(head(h), y[:, t])"
    ),
    "terms in a list": STEPS.format(
        "    terms = []\n    for t in range(5):\n        h = cell(x[:, t], h)\n"
        "        terms.append(F.cross_entropy(head(h), y[:, t]))\n    loss = sum(terms)"
    ),
    "one target for the whole sequence": STEPS.format(
        "    for t in range(5):\n        h = cell(x[:, t], h)\n        loss = F.cross_entropy(head(h), y[:, -1])"
    ),
    "terms that are read as numbers": STEPS.format(
        "    for t in range(5):\n        h = cell(x[:, t], h)\n        loss = F.cross_entropy(head(h), y[:, t])\n"
        "        seen = loss.item()"
    ),
    "a step in each pass": STEPS.format(
        "    for t in range(5):\n        h = cell(x[:, t], h.detach())\n"
        "        loss = F.cross_entropy(head(h), y[:, t])\n        if t < 4:\n"
        "            optimizer.zero_grad()\n            loss.backward()\n            optimizer.step()"
    ),
    "terms of held-out data before the loss": STEPS.format(
        "    for t in range(4):\n        seen = F.cross_entropy(head(cell(x[:, t], x.new_ones(6, 8))), y[:, t])\n"
        "    loss = F.cross_entropy(head(cell(x[:, 4], x.new_ones(6, 8))), y[:, 4])"
    ),
    "one of several terms in each step": STEPS.format(
        "    h = cell(x[:, 0], x.new_ones(6, 8))\n    losses = [F.cross_entropy(head(h), y[:, t]) for t in range(5)]\n"
        "    loss = losses[step + 1]"
    ),
    "terms of layers that are added up": LAYERS.format(
        kept="extra", loop="            x, extra = block(x)\n            total = total + extra"
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_the_line_that_replaces_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTY[name], "only_last_counts", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_what_looks_alike_and_is_right_is_quiet(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
