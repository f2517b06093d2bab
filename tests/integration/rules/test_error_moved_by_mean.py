"""Errors of standardized values that are brought back to the units of the values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import alarms, assert_first_alarm

SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
class Scaler:
    def __init__(self, values):
        self.mean, self.std = values.mean(0), values.std(0).clamp(min=1e-6)
    def transform(self, values):
        return (values - self.mean) / self.std
    def inverse(self, values):
        return values * self.std + self.mean
x = torch.randn(96, 4)
y = x.sum(1) * 3 + 50 + torch.randn(96)
scaler = Scaler(y[:64])
scaled = scaler.transform(y)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for step in range(10):
    loss = nn.functional.mse_loss(model(x[:64]).squeeze(1), scaled[:64])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    answer = model(x[64:]).squeeze(1)
    SCORE
"""


@pytest.mark.parametrize(
    "score",
    [
        "print(scaler.inverse((answer - scaled[64:]).abs().mean()))  # HERE",
        "print(scaler.inverse((answer - scaled[64:]).square().mean().sqrt()))  # HERE",
        "print(scaler.inverse(nn.functional.l1_loss(answer, scaled[64:])).item())  # HERE",
        "print(scaler.inverse((answer - scaled[64:]).abs()).mean())  # HERE",
        "error = (answer - scaled[64:]).abs().mean()\n    print(scaler.inverse(error))  # HERE",
    ],
)
def test_an_error_with_the_mean_added_is_told(score: str, tmp_path: Path) -> None:
    assert_first_alarm(SCRIPT.replace("SCORE", score), "error_moved_by_mean", tmp_path)


@pytest.mark.parametrize(
    "score",
    [
        "print((answer - scaled[64:]).abs().mean() * scaler.std)",
        "print((scaler.inverse(answer) - y[64:]).abs().mean())",
        "print((scaler.inverse(answer) - y[64:]).abs().mean() * y.std() + 1)",
        "print(scaler.inverse(answer.abs()).mean())",
    ],
)
def test_values_and_errors_in_their_units_raise_no_alarm(score: str, tmp_path: Path) -> None:
    found = [f"{each.cause}: {each.message}" for each in alarms(SCRIPT.replace("SCORE", score), tmp_path)]
    assert found == []
