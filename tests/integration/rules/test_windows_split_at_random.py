from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

CAUSE = "windows_split_at_random"
DATA = """
import random
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split
class Windows(Dataset):
    def __init__(self, series, step=1):
        self.series, self.step = series, step
    def __len__(self):
        return (len(self.series) - 13) // self.step
    def __getitem__(self, i):
        i = i * self.step
        return self.series[i : i + 12], self.series[i + 12 : i + 13]
series = torch.randn(133).cumsum(0) / 5
"""
TRAIN = """
model = nn.Linear(12, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(3):
    for x, y in DataLoader(train, batch_size=16, shuffle=True):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(sum(F.mse_loss(model(x), y) for x, y in DataLoader(held_out, batch_size=16)))
"""


@pytest.mark.parametrize(
    "split",
    [
        "train, held_out = random_split(Windows(series), [90, 30])  # HERE",
        "data = Windows(series)\norder = torch.randperm(len(data)).tolist()  # HERE\n"
        "train, held_out = Subset(data, order[:90]), Subset(data, order[90:])",
        "rows = series.unfold(0, 13, 1)[:120]\ndata = TensorDataset(rows[:, :12], rows[:, 12:])\n"
        "train, held_out = random_split(data, [90, 30])  # HERE",
        "rows = torch.stack([series[i : i + 13] for i in range(120)])\n"
        "data = TensorDataset(rows[:, :12], rows[:, 12:])\ntrain, held_out = random_split(data, [90, 30])  # HERE",
        "rows = series.unfold(0, 13, 1)\norder = torch.randperm(len(rows))  # HERE\n"
        "t, h = rows[order[:90]], rows[order[90:]]\n"
        "train, held_out = TensorDataset(t[:, :12], t[:, 12:]), TensorDataset(h[:, :12], h[:, 12:])",
    ],
)
def test_held_out_windows_among_trained_ones(split: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + DATA + split + TRAIN, CAUSE, tmp_path)


def test_permutation_that_torch_did_not_draw(tmp_path: Path) -> None:
    script = HEAD + DATA
    split = (
        "data = Windows(series)\norder = list(range(len(data)))\nrandom.Random(0).shuffle(order)  # HERE\n"
        "train, held_out = Subset(data, order[:90]), Subset(data, order[90:])"
    )
    assert_first_alarm(script + split + TRAIN, CAUSE, tmp_path)


@pytest.mark.parametrize(
    "split",
    [
        "train, held_out = Windows(series[:95]), Windows(series[95:])",
        "data = Windows(series)\ntrain, held_out = Subset(data, range(80)), Subset(data, range(93, 120))",
        # Windows that share nothing may be held out at random.
        "series = torch.randn(900)\ntrain, held_out = random_split(Windows(series, 13), [50, 18])",
        # The score of the training part itself.
        "train = held_out = Windows(series)",
        "data = Windows(series)\ntrain, held_out = Subset(data, range(80)), Subset(data, range(60))",
        # Every fourth one, and the score of each place of the same series.
        "train, held_out = Windows(series, 6), Windows(series)",
        # Rows that are no windows.
        "rows = torch.randn(120, 13)\ndata = TensorDataset(rows[:, :12], rows[:, 12:])\n"
        "train, held_out = random_split(data, [90, 30])",
        "rows = series[:130].unfold(0, 13, 13)\nrows = rows.repeat(9, 1) + torch.randn(90, 13)\n"
        "data = TensorDataset(rows[:, :12], rows[:, 12:])\ntrain, held_out = random_split(data, [70, 20])",
    ],
)
def test_split_by_time_and_windows_apart(split: str, tmp_path: Path) -> None:
    assert CAUSE not in {finding.cause for finding in alarms(HEAD + DATA + split + TRAIN, tmp_path)}


def test_random_starts_in_all_of_a_text(tmp_path: Path) -> None:
    script = """
text = torch.randn(4000)
held_out = torch.randn(400)
model = nn.Linear(12, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def batch(data):
    starts = torch.randint(len(data) - 13, (16,))
    return torch.stack([data[i : i + 12] for i in starts]), torch.stack([data[i + 12 : i + 13] for i in starts])
@torch.no_grad()
def score():
    batches = [batch(data) for data in (text, text, held_out, held_out)]
    return [F.mse_loss(model(x), y).item() for x, y in batches]
for step in range(20):
    x, y = batch(text)
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(score())
"""
    assert CAUSE not in {finding.cause for finding in alarms(HEAD + script, tmp_path)}


def test_batches_of_windows(tmp_path: Path) -> None:
    script = """
rows = series.unfold(0, 13, 1)
train, held_out = rows[:80], rows[93:]
model = nn.Linear(12, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(4):
    order = torch.randperm(len(train))
    for part in (order[:40], order[40:]):
        loss = F.mse_loss(model(train[part][:, :12]), train[part][:, 12:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with torch.no_grad():
    print(F.mse_loss(model(held_out[:, :12]), held_out[:, 12:]))
"""
    assert CAUSE not in {finding.cause for finding in alarms(HEAD + DATA + script, tmp_path)}


def test_windows_of_letters(tmp_path: Path) -> None:
    script = """
rows = torch.randint(0, 9, (140,)).unfold(0, 5, 1)
order = torch.randperm(len(rows))
train, held_out = rows[order[:100]], rows[order[100:]]
embed, head = nn.Embedding(9, 6), nn.Linear(24, 9)
optimizer = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=0.01)
for step in range(8):
    loss = F.cross_entropy(head(embed(train[:, :4]).flatten(1)), train[:, 4])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print(F.cross_entropy(head(embed(held_out[:, :4]).flatten(1)), held_out[:, 4]))
"""
    assert CAUSE not in {finding.cause for finding in alarms(HEAD + DATA + script, tmp_path)}


def test_batches_of_one_epoch(tmp_path: Path) -> None:
    script = """
import torch
from torch import nn
torch.manual_seed(0)
windows = (torch.randn(200).cumsum(0) / 5).unfold(0, 13, 1)
x, y = windows[:, :12], windows[:, 12]
model = nn.Linear(12, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for rows in torch.randperm(120).split(20):
    loss = nn.functional.huber_loss(model(x[rows]).squeeze(1), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print((model(x[140:]).squeeze(1) - y[140:]).abs().mean())
"""
    assert CAUSE not in {each.cause for each in alarms(script, tmp_path)}


def test_parts_that_are_taken_for_inputs_and_for_targets(tmp_path: Path) -> None:
    tables = """
x = torch.stack([series[i : i + 12] for i in range(120)])
y = torch.stack([series[i + 12 : i + 13] for i in range(120)])
order = torch.randperm(120)  # HERE
train, held_out = TensorDataset(x[order[:90]], y[order[:90]]), TensorDataset(x[order[90:]], y[order[90:]])
"""
    assert_first_alarm(HEAD + DATA + tables + TRAIN, CAUSE, tmp_path)
