"""Predictions of a loader that are compared with stored labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

TRAINED = (
    HEAD + "from torch.utils.data import DataLoader, Dataset, TensorDataset\n"
    "x = torch.randn(96, 4)\ny = (x.sum(1) > 0).long()\n{}"
    "net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, {}))\n"
    "optimizer = torch.optim.Adam(net.parameters(), lr=0.01)\n"
    "for epoch in range(2):\n    for a, b in DataLoader(fit_on, batch_size=16, shuffle=True):\n"
    "        loss = {}\n        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"
)
CLASSES = TRAINED.format(
    "fit_on, other = TensorDataset(x[:64], y[:64]), TensorDataset(x[64:], y[64:])\nloader = DataLoader(other, 8{})\n",
    2,
    "F.cross_entropy(net(a), b)",
)
SCORED = """
@torch.no_grad()
def predict():
    return torch.cat([net(a).softmax(-1) for a, _ in loader])  # HERE
print((predict().argmax(-1) == y[64:]).float().mean(), (predict().argmax(-1) == other.tensors[1]).float().mean())
"""
BY_HAND = TRAINED.format(
    "class Rows(Dataset):\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n"
    "    def __len__(self):\n        return len(self.x)\n"
    "    def __getitem__(self, i):\n        return self.x[i], self.y[i]\n"
    "fit_on, other = Rows(x[:64], x[:64, :1]), Rows(x[64:], x[64:, :1])\nloader = DataLoader(other, 8{})\n",
    1,
    "F.mse_loss(net(a), b)",
)
ERRORS = """
found = []
with torch.no_grad():
    for a, b in loader:  # HERE
        found.append(net(a))
print((torch.cat(found) - other.y).square().mean().sqrt())
"""
BOTH_COLLECTED = """
with torch.no_grad():
    found, labels = zip(*((net(a), b) for a, b in loader))
print((torch.cat(found).argmax(1) == torch.cat(labels)).float().mean())
"""


@pytest.mark.parametrize(("script", "score"), [(CLASSES, SCORED), (BY_HAND, ERRORS)])
def test_stored_labels_beside_a_shuffled_loader_are_told(tmp_path: Path, script: str, score: str) -> None:
    assert_first_alarm(script.format(", shuffle=True") + score, "labels_in_other_order", tmp_path)
    assert not alarms(script.format("") + score, tmp_path)


def test_labels_of_the_same_batches_are_quiet(tmp_path: Path) -> None:
    assert not alarms(CLASSES.format(", shuffle=True") + BOTH_COLLECTED, tmp_path)
