"""Correlations of features: over which axis their factors were standardized, and over which they are averaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
data = torch.randn(64, 4) @ torch.randn(4, 10)
net = nn.Sequential(nn.Linear(10, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 6))
optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
for step in range(4):
    x = data[torch.randperm(64)[:32]]
    a, b = net(x + 0.2 * torch.randn(32, 10)), net(x + 0.2 * torch.randn(32, 10))
"""
)
LOSS = """
    c = (a.T @ b) / len(a)
    loss = (torch.diagonal(c) - 1).pow(2).sum() + 0.01 * (c - torch.diag(torch.diagonal(c))).pow(2).sum()
"""
FAULTY = {
    "means and deviations of rows": """
    a, b = [(z - z.mean(dim=1, keepdim=True)) / (z.std(dim=1, keepdim=True) + 1e-6) for z in (a, b)]  # HERE
"""
    + LOSS,
    "an axis that is put back": """
    def unit(z):
        return (z - z.mean(-1)[:, None]) / z.var(-1).add(1e-5).sqrt()[:, None]  # HERE
    c = torch.einsum("bi,bj->ij", unit(a), unit(b)) / 32
    loss = F.mse_loss(c, torch.eye(6), reduction="sum")
""",
}
FAULTY["layer_norm()"] = """
    a, b = (F.layer_norm(z, (6,)) for z in (a, b))  # HERE
    loss = (torch.mm(a.t(), b) / 32 - torch.eye(6)).pow(2).sum()
"""
HEALTHY = {
    "over the batch": """
    a, b = [(z - z.mean(0)) / (z.std(0) + 1e-6) for z in (a, b)]
"""
    + LOSS,
    "products of samples": """
    a, b = [(z - z.mean(1, keepdim=True)) / z.std(1, keepdim=True) for z in (a, b)]
    c = a @ b.T / 6
    loss = (c - torch.eye(32)).pow(2).mean()
""",
    "a covariance that is to be a unit matrix": """
    a, b = (F.layer_norm(z, (6,)) for z in (a, b))
    loss = F.mse_loss(a, b) + 0.01 * (a.T @ a / 32 - torch.eye(6)).pow(2).sum()
""",
    "a covariance that is to be small": """
    a = (a - a.mean(1, keepdim=True)) / a.std(1, keepdim=True)
    c = a.T @ a / 32
    loss = F.mse_loss(a, b) + 0.01 * (c - torch.diag(c.diagonal())).pow(2).sum()
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_features_standardized_in_each_sample_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + TRAIN, "standardized_across", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_products_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name] + TRAIN, tmp_path)
