"""Two terms of a loss that are computed in the same way from the same results."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 30))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def nearest(one, other):
    return torch.cdist(one, other).min(dim=2).values.mean()
for step in range(4):
    x, target = torch.randn(8, 6), torch.randn(8, 12, 3)
    out = net(x).view(8, 10, 3)
"""
)
FAULTY = {
    "the minimum along one axis twice": """
    d = torch.cdist(out, target)
    there = d.min(dim=1)[0].mean()
    back = d.min(dim=1)[0].mean()  # HERE
    loss = there + back
""",
    "weighed, and beside another term": """
    d = (out[:, :, None] - target[:, None]).square().sum(-1)
    loss = 0.1 * out.square().mean()
    loss = loss + 0.5 * d.amin(2).mean()
    loss = loss + 0.5 * d.amin(2).mean()  # HERE
""",
    "the same arguments twice": """
    loss = nearest(out, target) + nearest(out, target)  # HERE
""",
    "a hand-written error twice": """
    wanted = target[:, :10]
    position = (out - wanted).pow(2).mean()
    angle = (out - wanted).pow(2).mean()  # HERE
    loss = position + 3.0 * angle
""",
}
HEALTHY = {
    "both axes": """
    d = torch.cdist(out, target)
    loss = d.min(dim=1)[0].mean() + d.min(dim=2)[0].mean()
""",
    "both orders": """
    loss = nearest(out, target) + nearest(target, out)
""",
    "a penalty for a shared weight at each of its places": """
    loss = nearest(out, target)
    for layer in (net[0], net[2], net[0]):
        loss = loss + 1e-3 * layer.weight.square().sum()
""",
    "two forwards with dropout": """
    one, two = F.dropout(out, 0.2), F.dropout(out, 0.2)
    loss = nearest(one, target) + nearest(two, target)
""",
    "parts": """
    d = (out - target[:, :10]).abs()
    loss = d[..., 0].mean() + d[..., 1].mean() + d[..., 2].mean()
""",
    "parts that lists choose": """
    d = (out - target[:, :10]).abs()
    loss = d[..., [0]].mean() + d[..., [1, 2]].mean() + d[:, [0]].mean() + d[:, [1]].mean()
""",
    "taken off and added": """
    d = torch.cdist(out, target).min(dim=2)[0]
    loss = d.mean() + out.square().mean() - d.mean() * 0.5
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_terms_that_are_computed_alike_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + TRAIN, "same_term_twice", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_terms_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name] + TRAIN, tmp_path)
