"""Margins of a map that a softmax has normalized: sums over its rows and over its columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
xs, ys = torch.linspace(-1, 1, 10), torch.linspace(-1, 1, 8)
for step in range(4):
    wanted = torch.rand(6, 2, 2)
    heat = net(torch.randn(6, 1, 8, 10))
"""
)
END = (
    """
    loss = F.mse_loss(torch.stack([x, y], -1), wanted)
"""
    + TRAIN
)
FAULTY = {
    "over the rows": """
    p = heat.softmax(-1)  # HERE
    x, y = (p.sum(-2) * xs).sum(-1), (p.sum(-1) * ys).sum(-1)
""",
    "over the columns, with matrix products": """
    p = F.softmax(heat * 2.0, dim=2)  # HERE
    x = p.sum(dim=2) @ xs
    y = p.sum(dim=3) @ ys
""",
}
HEALTHY = {
    "over both": """
    p = heat.flatten(2).softmax(-1).view_as(heat)
    x, y = (p.sum(-2) * xs).sum(-1), (p.sum(-1) * ys).sum(-1)
""",
    "one softmax for each margin": """
    x = (heat.mean(2).softmax(-1) * xs).sum(-1)
    y = (heat.mean(3).softmax(-1) * ys).sum(-1)
""",
    "a sum that is divided by": """
    p = heat.softmax(-1)
    p = p / p.sum(-1, keepdim=True)
    x = (p * xs).sum(-1).mean(-1)
    y = p.sum(-2).mean(-1)
""",
    "a sum that is only looked at": """
    p = heat.softmax(-1)
    assert torch.allclose(p.sum(-1), torch.ones(6, 2, 8))
    x = (p * xs).sum(-1).mean(-1)
    y = (p.sum(-2) - 0.8).abs().mean(-1)
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_map_that_is_normalized_over_one_axis_of_its_margins_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + END, "wrong_axis", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_maps_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name] + END, tmp_path)
