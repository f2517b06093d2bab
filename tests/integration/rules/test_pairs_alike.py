"""Losses of pairs: which ones are pulled together, and which are kept apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

DATA = (
    HEAD
    + """
y = torch.randint(0, 4, (96,))
x = torch.randn(4, 6)[y] + 0.5 * torch.randn(96, 6)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(5):
    i, j = torch.randint(0, 96, (2, 32))
"""
)
FAULTY = {
    "a label of pairs": """
    alike = (y[i] == y[j]).float()
    d = F.pairwise_distance(net(x[i]), net(x[j]))
    loss = torch.mean((1 - alike) * d.pow(2) + alike * (1 - d).clamp(min=0).pow(2))  # HERE
""",
    "masks": """
    alike = y[i].eq(y[j])
    d = (net(x[i]) - net(x[j])).square().sum(1)
    loss = F.relu(2.0 - d[alike]).mean() + d[~alike].mean()  # HERE
""",
    "a label of different pairs in the other formula": """
    other = (y[i] != y[j]).long()
    d = torch.linalg.vector_norm(net(x[i]) - net(x[j]), dim=1)
    near = other * d ** 2
    far = (1 - other) * torch.clamp(1.5 - d, min=0) ** 2  # HERE
    loss = 0.5 * (near + far).mean()
""",
    "squared distances, and a label that is taken off with a sign": """
    alike = (y[i] == y[j]).float()
    d = ((net(x[i]) - net(x[j])) ** 2).sum(1)
    loss = 0.5 * (alike * F.relu(1 - (d + 1e-9).sqrt()).pow(2) + (1 + -1 * alike) * d).mean()  # HERE
""",
    "all pairs of a batch": """
    z = net(x[i])
    d = torch.cdist(z, net(x[j]))
    alike = y[i][:, None] == y[j][None, :]
    loss = torch.where(alike, F.relu(1 - d), d).mean()  # HERE
""",
}
HEALTHY = {
    "alike pairs are pulled": """
    alike = (y[i] == y[j]).float()
    d = F.pairwise_distance(net(x[i]), net(x[j]))
    loss = torch.mean(alike * d.pow(2) + (1 - alike) * (1 - d).clamp(min=0).pow(2))
""",
    "different pairs are 1": """
    other = (y[i] != y[j]).float()
    d = F.pairwise_distance(net(x[i]), net(x[j]))
    loss = torch.mean((1 - other) * d.pow(2) + other * (1 - d).clamp(min=0).pow(2))
""",
    "masks": """
    alike = y[i] == y[j]
    d = (net(x[i]) - net(x[j])).square().sum(1)
    loss = F.relu(2.0 - d[~alike]).mean() + d[alike].mean()
""",
    "alike pairs are not to fall together": """
    alike = (y[i] == y[j]).float()
    d = F.pairwise_distance(net(x[i]), net(x[j]))
    loss = torch.mean(alike * d + alike * F.relu(0.1 - d) + (1 - alike) * F.relu(2 - d))
""",
    "a label that is taken off with a sign": """
    alike = (y[i] == y[j]).float()
    d = ((net(x[i]) - net(x[j])) ** 2).sum(1)
    loss = 0.5 * (alike * d + (1 + -1 * alike) * F.relu(1 - (d + 1e-9).sqrt()).pow(2)).mean()
""",
    "where": """
    d = torch.cdist(net(x[i]), net(x[j]))
    loss = torch.where(y[i][:, None] != y[j], F.relu(1 - d), d).mean()
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_pairs_that_are_exchanged_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(DATA + FAULTY[name] + TRAIN, "alike_kept_apart", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_pairs_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(DATA + HEALTHY[name] + TRAIN, tmp_path)
