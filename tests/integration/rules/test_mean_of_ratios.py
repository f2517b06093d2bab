from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

CAUSE = "mean_of_ratios"
PROGRAM = (
    HEAD
    + """
import numpy as np
from torch.utils.data import DataLoader, TensorDataset
x = torch.randn(120, 5)
y = (x[:, 0] > 0.8).long()
loader = DataLoader(TensorDataset(x[:80], y[:80]), batch_size=16, shuffle=True)
held_out = DataLoader(TensorDataset(x[80:], y[80:]), batch_size=8)
model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
def f1_of(p, y):
    hits = ((p == 1) & (y == 1)).sum().item()
    precision = hits / max(1, (p == 1).sum().item())
    recall = hits / max(1, (y == 1).sum().item())
    return 2 * precision * recall / max(1e-8, precision + recall)
def roc_auc_of(y, scores):
    return float((scores[y == 1][:, None] > scores[y == 0]).float().mean())
class metrics:
    f1_score = staticmethod(lambda y, p: f1_of(torch.tensor(p), torch.tensor(y)))
    roc_auc_score = staticmethod(lambda y, p: float(np.mean(p[y == 1].mean() > p[y == 0])))
class Meter:
    def __init__(self):
        self.sum = self.count = 0
    def update(self, value, number=1):
        self.sum += value * number
        self.count += number
    @property
    def average(self):
        return self.sum / self.count
def score(loader):
    model.eval()
    with torch.no_grad():
        {score}
    model.train()
for epoch in range(3):
    for xb, yb in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(xb), yb).backward()
        optimizer.step()
    score(held_out)
"""
)


@pytest.mark.parametrize(
    "score",
    [
        """total = 0
        for xb, yb in loader:
            total += f1_of(model(xb).argmax(1), yb)  # HERE
        print(total / len(loader))""",
        """recalls = []
        for xb, yb in loader:
            p = model(xb).argmax(1)
            recalls.append(((p * yb).sum() / (yb.sum() + 1e-8)).item())  # HERE
        print(np.mean(recalls))""",
        """scores, total = [], 0
        for number, (xb, yb) in enumerate(loader):
            p = model(xb).softmax(1)[:, 1]
            value = metrics.roc_auc_score(yb.numpy(), p.numpy())
            total = total + value  # HERE
        total /= number + 1
        print(total)""",
        """values = []
        for i in range(80, 120, 10):
            p = model(x[i : i + 10]).argmax(1)
            values.append(metrics.f1_score(y[i : i + 10].numpy(), p.numpy()))  # HERE
        print(sum(values) / len(values))""",
        """precision = 0.0
        parts = list(zip(x[80:].split(10), y[80:].split(10)))
        for xb, yb in zip(x[80:].split(10), y[80:].split(10)):
            p = model(xb).argmax(1) == 1
            hits = torch.logical_and(p, yb == 1).sum()
            precision += torch.div(hits, p.sum().clamp(min=1))  # HERE
        print(precision / 4)""",
        """sums = {"loss": 0.0, "f1": 0.0}
        for xb, yb in loader:
            scores = model(xb)
            sums["loss"] += F.cross_entropy(scores, yb).item()
            sums["f1"] += f1_of(scores.argmax(1), yb)  # HERE
        print({name: value / len(loader) for name, value in sums.items()})""",
        "print(np.mean([f1_of(model(xb).argmax(1), yb) for xb, yb in loader]))  # HERE",
        """meter = Meter()
        for xb, yb in loader:
            meter.update(f1_of(model(xb).argmax(1), yb), len(yb))  # HERE
        print(meter.average)""",
    ],
)
def test_ratios_of_batches(score: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM.format(score=score), CAUSE, tmp_path)


@pytest.mark.parametrize(
    "score",
    [
        # Counts that are added up first, and predictions that are collected.
        """hits = positives = 0
        for xb, yb in loader:
            p = model(xb).argmax(1)
            hits += (p * yb).sum().item()
            positives += yb.sum().item()
        print(hits / max(1, positives))""",
        """given, labels = [], []
        for xb, yb in loader:
            given.append(model(xb).argmax(1))
            labels.append(yb)
        print(f1_of(torch.cat(given), torch.cat(labels)))""",
        # Accuracies, and losses.
        """total = loss = 0
        for xb, yb in loader:
            total += (model(xb).argmax(1) == yb).sum().item() / len(yb)
            loss += F.cross_entropy(model(xb), yb).item()
        print(total / len(loader), loss / len(loader))""",
        """meter = Meter()
        for xb, yb in loader:
            meter.update((model(xb).argmax(1) == yb).float().mean().item(), len(yb))
        print(meter.average)""",
        "print(np.mean([F.cross_entropy(model(xb), yb).item() for xb, yb in loader]))",
        # Means over models, users, classes and thresholds.
        """values = []
        for net in (model, copy.deepcopy(model)):
            values.append(f1_of(net(x[80:]).argmax(1), y[80:]))
        print(np.mean(values))""",
        """values = []
        for user in range(4):
            values.append(f1_of(model(x[user::4]).argmax(1), y[user::4]))
        print(np.mean(values))""",
        """p, values = model(x[80:]).softmax(1)[:, 1], []
        for threshold in np.arange(0.1, 0.9, 0.1):
            values.append(f1_of((p > threshold).long(), y[80:]))
        print(max(values))""",
        # Overlaps of single images.
        """total = 0
        for xb, yb in loader:
            p = (model(xb)[:, :, None, None] > torch.zeros(4, 4)).float()
            t = torch.ones_like(p)
            dice = 2 * (p * t).sum((1, 2, 3)) / (p.sum((1, 2, 3)) + t.sum((1, 2, 3)))
            total += dice.mean().item()
        print(total / len(loader))""",
        # One batch, one sample each.
        """values = []
        for i in range(80, 120, 40):
            values.append(f1_of(model(x[i : i + 40]).argmax(1), y[i : i + 40]))
        print(np.mean(values))""",
    ],
)
def test_means_that_are_meant(score: str, tmp_path: Path) -> None:
    assert CAUSE not in {finding.cause for finding in alarms(PROGRAM.format(score=score), tmp_path)}


def test_folds_and_training(tmp_path: Path) -> None:
    script = (
        PROGRAM.format(score="pass")
        + """
values = []
for rows in torch.randperm(120).split(30):
    net = nn.Linear(5, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(3):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    values.append(f1_of(net(x[rows]).argmax(1), y[rows]))
print(np.mean(values))
"""
    )
    assert CAUSE not in {finding.cause for finding in alarms(script, tmp_path)}
