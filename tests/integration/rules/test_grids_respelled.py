"""Values that are split between the points of a grid by masks, and pictures and their coordinates in two orders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

_SPLIT = """
model = nn.Linear(4, 9)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
bins = torch.linspace(-4, 4, 9)
for step in range(3):
    x, value = torch.randn(16, 4), 2 * torch.randn(16)
    value = torch.where(torch.rand(16) < 0.5, value.round(), value).clamp(-4, 4)
    d = value[:, None] - bins
    {lines}
    loss = F.cross_entropy(model(x), target)
""" + TRAIN.replace("{", "{{")

_PICTURE = """
image = torch.rand(3, 6, 10)
ys, xs = torch.linspace(-1, 1, 6), torch.linspace(-1, 1, 10)
places = {places}
colours = {colours}
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(3):
    pick = torch.randint(60, (20,))
    loss = {loss}
""" + TRAIN.replace("{", "{{")
_PICKED = "F.mse_loss(model(places[pick]), colours[pick])"
_LOADED = (
    """
from torch.utils.data import DataLoader, TensorDataset
image = torch.rand(6, 10, 3)
places = torch.cartesian_prod(torch.linspace(-1, 1, 10), torch.linspace(-1, 1, 6))  # HERE
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for place, colour in DataLoader(TensorDataset(places, image.reshape(60, 3)), batch_size=20, shuffle=True):
    loss = (model(place) - colour).square().mean()
"""
    + TRAIN
)

FAULTS = {
    "all pairs of coordinates, x in front": (
        "flattened_otherwise",
        _PICTURE.format(places="torch.cartesian_prod(xs, ys)  # HERE", colours="image.flatten(1).T", loss=_PICKED),
    ),
    "a grid of x and y, and colours by permute": (
        "flattened_otherwise",
        _PICTURE.format(
            places='torch.stack(torch.meshgrid(xs, ys, indexing="ij"), -1).view(-1, 2)  # HERE',
            colours="image.permute(1, 2, 0).reshape(-1, 3)",
            loss="F.mse_loss(model(places), colours)",
        )
        .replace("  # HERE", "")
        .replace("reshape(-1, 3)", "reshape(-1, 3)  # HERE"),
    ),
    "all pairs of coordinates in a data loader": ("flattened_otherwise", _LOADED),
    "two masks that leave a distance of 0 out": (
        "share_lost_on_grid",
        _SPLIT.format(
            lines="below = (d > 0) & (d < 1)  # HERE\n    above = (d < 0) & (d > -1)\n"
            "    target = below * (1 - d) + above * (1 + d)"
        ),
    ),
    "two choices that leave a distance of 0 out": (
        "share_lost_on_grid",
        _SPLIT.format(
            lines="above = torch.where(d.lt(0) & d.gt(-1), 1 + d, torch.zeros_like(d))  # HERE\n"
            "    target = torch.where(d.gt(0) & d.lt(1), 1 - d, above)"
        ),
    ),
}

HEALTHY = {
    "all pairs of coordinates, y in front": _PICTURE.format(
        places="torch.cartesian_prod(ys, xs).flip(1)", colours="image.flatten(1).T", loss=_PICKED
    ),
    "all pairs of coordinates, x in front, of a turned picture": _PICTURE.format(
        places="torch.cartesian_prod(xs, ys)", colours="image.transpose(1, 2).flatten(1).T", loss=_PICKED
    ),
    "a grid of rows and columns": _PICTURE.format(
        places='torch.stack(torch.meshgrid(xs, ys, indexing="xy"), -1).view(-1, 2)',
        colours="image.flatten(1).mT",
        loss=_PICKED,
    ),
    "other rows of both": _PICTURE.format(
        places="torch.cartesian_prod(xs, ys)",
        colours="image.flatten(1).T",
        loss="F.mse_loss(model(places[pick]), colours[pick % 10 * 10 + pick // 10])",
    ).replace("randint(60", "randint(6"),
    "one of two masks has a distance of 0": _SPLIT.format(
        lines="target = ((d >= 0) & (d < 1)) * (1 - d) + ((d < 0) & (d > -1)) * (1 + d)"
    ),
    "a choice that has a distance of 0": _SPLIT.format(
        lines="target = torch.where(d > 0, 1 - d, 1 + d) * (d.abs() < 1)"
    ),
    "a triangle": _SPLIT.format(lines="target = (1 - d.abs()).relu()"),
    "values between the points": _SPLIT.format(
        lines="d = d + 0.013\n    target = ((d > 0) & (d < 1)) * (1 - d) + ((d < 0) & (d > -1)) * (1 + d)\n"
        "    target = target / target.sum(1, keepdim=True)"
    ),
}


@pytest.mark.parametrize(("cause", "script"), FAULTS.values(), ids=FAULTS)
def test_fault(cause: str, script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("script", HEALTHY.values(), ids=HEALTHY)
def test_healthy(script: str, tmp_path: Path) -> None:
    assert alarms(HEAD + script, tmp_path) == []
