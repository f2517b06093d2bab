"""Rare classes that are drawn more often, and that the loss weighs more as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler
x = torch.randn(300, 4)
y = (x[:, 0] > 1.2).long()
other = torch.randint(0, 20, (300,)).clamp(max=1)
counts = torch.bincount(y)
weights = 1.0 / counts
{sampler}
{loss}
model = nn.Linear(4, {outputs})
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for a, b in loader:
    loss = {value}
"""
    + TRAIN
)
DRAWN = """sampler = WeightedRandomSampler(weights[y], 300)
loader = DataLoader(TensorDataset(x, y), batch_size=50, sampler=sampler)"""
SHUFFLED = "loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)"
BY_OTHER = DRAWN.replace("weights[y]", "(1.0 / torch.bincount(other))[other]")
WEIGHED = "weigh = nn.CrossEntropyLoss(weight=weights / weights.sum())"
POSITIVE = "weigh = nn.BCEWithLogitsLoss(pos_weight=counts[0] / counts[1])"
CLASSES = {"outputs": 2, "value": "weigh(model(a), b)"}
BINARY = {"outputs": 1, "value": "weigh(model(a).squeeze(1), b.float())"}
FAULTY = {
    "weights of classes": PROGRAM.format(sampler=DRAWN, loss=WEIGHED + "  # HERE", **CLASSES),
    "a weight of ones": PROGRAM.format(sampler=DRAWN, loss=POSITIVE + "  # HERE", **BINARY),
}
HEALTHY = {
    "weighed, and drawn for a score": PROGRAM.format(
        sampler=SHUFFLED + "\nprobe = torch.multinomial(weights[y], 60, replacement=True)", loss=WEIGHED, **CLASSES
    )
    + "with torch.no_grad():\n    print((model(x[probe]).argmax(1) == y[probe]).float().mean())\n",
    "weighed first, drawn in the second stage": PROGRAM.format(sampler=SHUFFLED, loss=WEIGHED, **CLASSES)
    + "for rows in torch.multinomial(weights[y], 300, replacement=True).split(50):\n"
    + "    loss = F.cross_entropy(model(x[rows]), y[rows])"
    + TRAIN,
    "half of the balance in each of both": PROGRAM.format(
        sampler="y = (x[:, 0] > 1.9).long()\nweights = torch.bincount(y).float().rsqrt()\n" + DRAWN,
        loss="weigh = nn.CrossEntropyLoss(weight=weights)",
        **CLASSES,
    ),
    "drawn by something else, ones weighed": PROGRAM.format(sampler=BY_OTHER, loss=POSITIVE, **BINARY),
    "drawn only": PROGRAM.format(sampler=DRAWN, loss="weigh = nn.CrossEntropyLoss()", **CLASSES),
    "weighed only": PROGRAM.format(sampler=SHUFFLED, loss=WEIGHED, **CLASSES),
    "ones weighed only": PROGRAM.format(sampler=SHUFFLED, loss=POSITIVE, **BINARY),
    "weights that undo the draw": PROGRAM.format(
        sampler=DRAWN, loss="weigh = nn.CrossEntropyLoss(weight=counts / counts.sum())", **CLASSES
    ),
    "drawn by something else": PROGRAM.format(sampler=BY_OTHER, loss=WEIGHED, **CLASSES),
    "a weight near one": PROGRAM.format(
        sampler=DRAWN, loss="weigh = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(1.5))", **BINARY
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_classes_that_are_balanced_twice_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTY[name], "balanced_twice", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_classes_that_are_balanced_once_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not [each for each in alarms(HEALTHY[name], tmp_path) if each.cause == "balanced_twice"]
