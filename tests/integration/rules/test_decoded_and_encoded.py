"""Predictions and targets in the units of the data, or normalized."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
from torch.utils.data import DataLoader, TensorDataset
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
class Normalizer:
    def __init__(self, x):
        self.mean, self.std = x.mean(0), x.std(0)
    def encode(self, x):
        return (x - self.mean) / (self.std + 1e-6)
    def decode(self, x):
        return x * (self.std + 1e-6) + self.mean
x = torch.randn(64, 4)
y = 20 + 5 * x[:, :3] + torch.randn(64, 3)
units = Normalizer(y)
"""
)
FAULTY = {
    "in a loader": """
for a, b in DataLoader(TensorDataset(x, units.encode(y)), batch_size=16, shuffle=True):
    out = units.decode(net(a))
    loss = ((out - b).norm(dim=1) / b.norm(dim=1)).mean()  # HERE
""",
    "numbers": """
mean, std = y.mean().item(), y.std().item()
target = (y - mean) / std
for step in range(4):
    loss = F.l1_loss(net(x) * std + mean, target)  # HERE
""",
    "the scale as a factor": """
mean, inverse = y.mean(0, keepdim=True), 1 / y.std(0, keepdim=True)
target = (y - mean) * inverse
for step in range(4):
    out = mean + net(x) / 1.0 * (1 / inverse)
    loss = F.mse_loss(out, target)  # HERE
""",
}
HEALTHY = {
    "both decoded": """
for a, b in DataLoader(TensorDataset(x, units.encode(y)), batch_size=16, shuffle=True):
    loss = F.mse_loss(units.decode(net(a)), units.decode(b))
""",
    "both encoded": """
for a, b in DataLoader(TensorDataset(x, units.encode(y)), batch_size=16, shuffle=True):
    loss = F.mse_loss(net(a), b)
""",
    "decoded, and the data itself": """
for a, b in DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True):
    loss = F.mse_loss(units.decode(net(a)), b)
""",
    "a figure beside the loss": """
for a, b in DataLoader(TensorDataset(x, units.encode(y)), batch_size=16, shuffle=True):
    out = net(a)
    with torch.no_grad():
        error = (units.decode(out) - units.decode(b)).abs().mean()
    loss = F.mse_loss(out, b)
""",
    "normalized inputs of other units": """
inputs = Normalizer(x)
for a, b in DataLoader(TensorDataset(inputs.encode(x), y), batch_size=16, shuffle=True):
    loss = F.mse_loss(units.decode(net(a)), b)
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_decoded_prediction_and_an_encoded_target_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + TRAIN, "decoded_meets_encoded", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_the_same_units_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name] + TRAIN, tmp_path)
