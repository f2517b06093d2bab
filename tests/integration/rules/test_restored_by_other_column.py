"""Predictions of one column that are multiplied by the deviation of another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
class Scaler:
    def __init__(self, table):
        self.mean, self.std = table.mean(0), table.std(0)
    def scale(self, table):
        return (table - self.mean) / self.std
    def restore(self, values, column=0):
        return values * self.std[column] + self.mean[column]
table = torch.randn(120, 3) * torch.tensor([9.0, 1.0, 4.0]) + torch.tensor([90.0, 1.0, 20.0])
scaler = Scaler(table[:80])
scaled = scaler.scale(table)
windows = torch.stack([scaled[i : i + 6] for i in range(100)])
later = torch.stack([scaled[i + 6 : i + 8, {target}] for i in range(100)])
model = nn.Sequential(nn.Flatten(), nn.Linear(18, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(4):
    rows = torch.randperm(70)[:20]
    loss = F.mse_loss(model(windows[rows]), later[rows])
"""
    + TRAIN
    + """
with torch.no_grad():
    {score}
"""
)
FAULTY = {
    "the column that is the default": PROGRAM.format(
        target=2,
        score="print((scaler.restore(model(windows[80:])) - scaler.restore(later[80:])).abs().mean())  # HERE",
    ),
    "written in place": PROGRAM.format(
        target=-1,
        score="print((model(windows[80:]) * scaler.std[0] + scaler.mean[0]).mean())  # HERE",
    ),
}
TABLE = (
    HEAD
    + """
table = torch.randn(120, 4) * torch.tensor([9.0, 1.0, 4.0, 2.0]) + torch.tensor([90.0, 1.0, 20.0, 3.0])
mean, std = table[:80].mean(0), table[:80].std(0)
PREPARE
model = nn.Sequential(nn.Flatten(), nn.LazyLinear(1))
model(x[:2])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(4):
    loss = F.mse_loss(model(x[:70]).squeeze(1), y[:70])
"""
    + TRAIN
    + """
with torch.no_grad():
    print((model(x[80:]).squeeze(1) * std[2] + mean[2]).mean())
"""
)


def of_table(prepare: str) -> str:
    return TABLE.replace("PREPARE", prepare)


HEALTHY = {
    "a first column that is left out": of_table("x = ((table - mean) / std)[:, 1:]\ny = x[:, 1]"),
    "deviations without the first one": of_table("x = (table[:, 1:] - mean[1:]) / std[1:]\ny = x[:, 1]"),
    "columns in another order": of_table("x = ((table - mean) / std)[:, [2, 0, 1, 3]]\ny = x[:, 0]"),
    "an order that is a tensor": of_table("x = ((table - mean) / std)[:, torch.tensor([2, 0, 1, 3])]\ny = x[:, 0]"),
    "other columns in front": of_table("x = torch.cat([torch.randn(120, 2), (table - mean) / std], 1)\ny = x[:, 4]"),
    "windows with the times behind the columns": of_table(
        "windows = ((table - mean) / std).unfold(0, 7, 1)\nx, y = windows[:, :, :-1], windows[:, 2, -1]"
    ),
    "the same column": PROGRAM.format(
        target=2, score="print((scaler.restore(model(windows[80:]), 2) - scaler.restore(later[80:], 2)).abs().mean())"
    ),
    "the same column, counted from behind": PROGRAM.format(
        target=2, score="print((model(windows[80:]) * scaler.std[-1] + scaler.mean[-1]).mean())"
    ),
    "the default": PROGRAM.format(
        target=0, score="print((scaler.restore(model(windows[80:])) - scaler.restore(later[80:])).abs().mean())"
    ),
    "another column that is data": PROGRAM.format(
        target=2,
        score="print(scaler.restore(windows[80:, :, 0]).mean(), scaler.restore(model(windows[80:]), 2).mean())",
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_predictions_with_the_deviation_of_another_column_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTY[name], "restored_by_other_column", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_predictions_with_their_own_deviation_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not [each for each in alarms(HEALTHY[name], tmp_path) if each.cause == "restored_by_other_column"]
