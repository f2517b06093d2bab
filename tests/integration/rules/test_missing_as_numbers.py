from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

CAUSE = "missing_as_numbers"
PROGRAM = (
    HEAD
    + """
import numpy as np
x = torch.tensor([40.0, 120.0, 7.0]) + torch.tensor([9.0, 15.0, 1.0]) * torch.randn(90, 3)
y = (x[:, 0] > 42).float()
gone = torch.rand(90, 3) < 0.1
{prepared}
model = nn.Sequential(nn.Linear(x.shape[1], 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    for rows in torch.randperm(70).split(20):
        loss = F.binary_cross_entropy_with_logits(model(x[rows]).squeeze(1), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with torch.no_grad():
    print(((model(x[70:]).squeeze(1) > 0) == (y[70:] > 0.5)).float().mean())
"""
)
ARRAY = "table = x.masked_fill(gone, float('nan')).numpy()\n"
BACK = "\nx = torch.from_numpy(table)"


@pytest.mark.parametrize(
    "prepared",
    [
        "x[gone] = -999.0\nmean, std = x[:70].mean(0), x[:70].std(0)  # HERE\nx = (x - mean) / std",
        "x = x.masked_fill(gone, 9999)\nx = x - x.mean(dim=0, keepdim=True)  # HERE\nx = x / x.std(0)",
        "x[gone] = float('nan')\nx = x.nan_to_num()\nstd, mean = torch.std_mean(x, 0)  # HERE\nx = (x - mean) / std",
        "x[gone] = float('nan')\nx = torch.where(torch.isnan(x), -1.0, x)\nx -= x.mean(0)  # HERE\nx /= x.std(0)",
        "a, b = x[:, 0].clone(), x[:, 1]\na[gone[:, 0]] = -99\nx = torch.stack([a, b], 1)\n"
        "x = (x - x.mean(0)) / x.std(0)  # HERE",
        ARRAY + "table[np.isnan(table)] = -1\ntable = (table - table[:70].mean(0)) / table[:70].std(0)  # HERE" + BACK,
        ARRAY + "table = np.where(np.isnan(table), -99, table).astype('float32')\nmu = np.mean(table, axis=0)  # HERE\n"
        "sd = np.std(table, axis=0)\ntable = (table - mu) / sd" + BACK,
        "x[gone] = -999.0\nlow, high = x.amin(0), x.amax(0)  # HERE\nx = (x - low) / (high - low)",
        "x[gone] = -999.0\ntable = x.numpy()\ntable = (table - table.mean(0)) / table.std(0)  # HERE" + BACK,
        "rows = x.clone()\nrows[gone] = -999.0\nx = torch.tensor(rows.tolist())\n"
        "x = (x - x.mean(0)) / x.std(0)  # HERE",
    ],
)
def test_codes_in_a_mean(prepared: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM.format(prepared=prepared), CAUSE, tmp_path)


def test_codes_as_inputs(tmp_path: Path) -> None:
    script = PROGRAM.format(prepared="x[gone] = -999.0").replace("squeeze(1), y[rows])", "squeeze(1), y[rows])  # HERE")
    assert_first_alarm(script, CAUSE, tmp_path)


@pytest.mark.parametrize(
    "prepared",
    [
        # Statistics of the known values, and zeros behind them.
        "x[gone] = float('nan')\nmean = x.nanmean(0)\nx = torch.nan_to_num((x - mean) / 10)",
        "x[gone] = -999.0\nknown = x != -999\nmean = (x * known).sum(0) / known.sum(0)\n"
        "x = torch.where(known, (x - mean) / 10, 0.0)",
        "x[gone] = -999.0\nfor i in range(3):\n    known = x[:, i] != -999\n    part = x[known, i]\n"
        "    x[:, i] = torch.where(known, (x[:, i] - part.mean()) / part.std(), 0.0)",
        ARRAY + "mu, sd = np.nanmean(table, 0), np.nanstd(table, 0)\ntable = np.nan_to_num((table - mu) / sd)" + BACK,
        ARRAY + "known = ~np.isnan(table[:, 0])\nmu = table[known].mean()\ntable[np.isnan(table)] = -1\n"
        "table = (table - 60) / 50" + BACK,
        # Filled with a value of the middle, clipped, and centred data without gaps.
        "x[gone] = float('nan')\nx = torch.where(torch.isnan(x), 40.0, x)\nx = (x - x.mean(0)) / x.std(0)",
        "x = (x - x.mean(0)) / x.std(0)\nx[x < -1] = -1\nx = x - x.mean(0)",
        "x = torch.nan_to_num(x)\nx = (x - x.mean(0)) / x.std(0)",
        "x = (x - x.mean(0)) / x.std(0)\nx[gone] = 0.0",
        # Signs, and parts that are hidden on purpose.
        "x = torch.where(x > 40, -1.0, 1.0)\nx = x - x.mean(0)",
        "x = (x - x.mean(0)) / x.std(0)\nx[gone] = -1.0",
    ],
)
def test_values_that_are_right(prepared: str, tmp_path: Path) -> None:
    assert CAUSE not in {finding.cause for finding in alarms(PROGRAM.format(prepared=prepared), tmp_path)}


def test_masks_of_scores_and_rewards(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
x, y = torch.randn(40, 6, 8), torch.randn(40, 6)
hidden = torch.rand(40, 6) < 0.2
score, head = nn.Linear(8, 1), nn.Linear(8, 6)
optimizer = torch.optim.SGD([*score.parameters(), *head.parameters()], lr=0.01)
for step in range(3):
    weights = score(x).squeeze(-1).masked_fill(hidden, -9999).softmax(1)
    rewards = torch.randn(40)
    rewards[hidden[:, 0]] = -99.0
    advantage = (rewards - rewards.mean()) / rewards.std()
    loss = ((head((weights[..., None] * x).sum(1)) - y).square().mean(1) * advantage.abs()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    )
    assert CAUSE not in {finding.cause for finding in alarms(script, tmp_path)}
