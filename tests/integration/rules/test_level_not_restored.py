"""Forecasts of windows without their level, and what brings it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
body = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, {wide}))
optimizer = torch.optim.Adam(body.parameters(), lr=0.01)
series = torch.randn(300, 3).cumsum(0) + 4
def forecast(x):
    {first}
    {last}
for step in range(4):
    starts = torch.randint(0, 270, (12,)).tolist()
    x = torch.stack([series[i : i + 16] for i in starts])
    y = torch.stack([series[i + 16 : i + 22] for i in starts])
    loss = F.mse_loss(forecast(x), {target})
"""
    + TRAIN
)
SCALED = "mean, std = x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-5"
ENDING = "end = x[:, -1:].detach()"
LOST = {
    "mean and deviation": (SCALED, "return body(((x - mean) / std).mT).transpose(1, 2)  # HERE"),
    "only the deviation comes back": (SCALED, "return body(((x - mean) / std).mT).mT * std  # HERE"),
    "the last value": (ENDING, "return body((x - end).transpose(1, 2)).transpose(1, 2)  # HERE"),
}
KEPT = {
    "both come back": (SCALED, "return body(((x - mean) / std).mT).mT * std + mean", "y"),
    "another mean comes back": (SCALED, "return body(((x - mean) / std).mT).mT + x.mean(dim=1, keepdim=True)", "y"),
    "the last value comes back": (ENDING, "return body((x - end).mT).mT + end", "y"),
    "targets without their level": (ENDING, "return body((x - end).mT).mT", "y - x[:, -1:]"),
    "features are centred": (
        "z = x - x.mean(-1, keepdim=True)",
        "return body(z.transpose(1, 2)).transpose(1, 2)",
        "y",
    ),
    "another column": (SCALED, "return body(((x - mean) / std).mT).mean(1)", "y[..., 2]"),
    "the window itself": ("pass", "return body(x.mT).mT", "y"),
}


@pytest.mark.parametrize("name", LOST)
def test_a_level_that_nothing_gives_back_is_told(name: str, tmp_path: Path) -> None:
    first, last = LOST[name]
    assert_first_alarm(SCRIPT.format(first=first, last=last, target="y", wide=6), "level_not_restored", tmp_path)


@pytest.mark.parametrize("name", KEPT)
def test_forecasts_with_their_level_are_left_alone(name: str, tmp_path: Path) -> None:
    first, last, target = KEPT[name]
    found = alarms(SCRIPT.format(first=first, last=last, target=target, wide=6), tmp_path)
    assert "level_not_restored" not in {each.cause for each in found}


def test_a_level_that_is_nearly_the_same_everywhere_is_no_loss(tmp_path: Path) -> None:
    first, last = LOST["mean and deviation"]
    script = SCRIPT.format(first=first, last=last, target="y", wide=6)
    waves = script.replace("torch.randn(300, 3).cumsum(0) + 4", "torch.sin(torch.arange(300)[:, None] * 0.7854) + 4")
    assert "level_not_restored" not in {each.cause for each in alarms(waves, tmp_path)}
