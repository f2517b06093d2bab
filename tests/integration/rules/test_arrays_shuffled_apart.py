"""Arrays of NumPy and lists that are shuffled before they come into torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

START = (
    HEAD
    + """
import random
import numpy as np
from torch.utils.data import DataLoader, TensorDataset
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 5)).astype("float32")
y = (X.sum(1) > 0).astype("int64")
model = nn.Linear(5, 2)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
"""
)
SLICES = (
    """
X_train, y_train = torch.from_numpy(X[:40]), torch.from_numpy(y[:40])
for i in range(0, len(X_train), 10):
    out = model(X_train[i : i + 10])
    loss = criterion(out, y_train[i : i + 10])
"""
    + TRAIN
)
LOADER = (
    """
data = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
loader = DataLoader(data, batch_size=10)
for i, (inputs, labels) in enumerate(loader):
    loss = criterion(model(inputs), labels)
"""
    + TRAIN
)
FAULTY = {
    "shuffled in place": "rng.shuffle(X)\nrng.shuffle(y)  # HERE\n" + SLICES,
    "in front of a loader": "np.random.shuffle(y)\nnp.random.shuffle(X)  # HERE\n" + LOADER,
    "two permutations": "X = X[np.random.permutation(60)]\ny = y[np.random.permutation(60)]  # HERE\n" + LOADER,
    "seeded once": "np.random.seed(1)\nX = np.random.permutation(X)\ny = np.random.permutation(y)  # HERE\n" + SLICES,
}
HEALTHY = {
    "one order": "order = rng.permutation(60)\nX, y = X[order], y[order]\n" + SLICES,
    "the same seed again": "np.random.seed(1)\nnp.random.shuffle(X)\nnp.random.seed(1)\nnp.random.shuffle(y)\n"
    + LOADER,
    "the same state again": "state = np.random.get_state()\nnp.random.shuffle(X)\nnp.random.set_state(state)\n"
    "np.random.shuffle(y)\n" + LOADER,
    "indexes of two parts": """
train, held_out = list(range(40)), list(range(40, 60))
random.shuffle(train)
random.shuffle(held_out)
for step in range(4):
    loss = criterion(model(torch.from_numpy(X[train])), torch.from_numpy(y[train]))
    print(criterion(model(torch.from_numpy(X[held_out])), torch.from_numpy(y[held_out])).item())
"""
    + TRAIN,
    "samples of two classes": """
one, other = X[y == 0], X[y == 1]
rng.shuffle(one)
rng.shuffle(other)
least = min(len(one), len(other))
for step in range(4):
    low, high = model(torch.from_numpy(one[:least]))[:, 0], model(torch.from_numpy(other[:least]))[:, 0]
    loss = F.margin_ranking_loss(high, low, torch.ones(least), margin=1.0)
"""
    + TRAIN,
}


@pytest.mark.parametrize("name", FAULTY)
def test_arrays_in_two_orders_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(START + FAULTY[name], "shuffled_apart", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_shuffles_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(START + HEALTHY[name], tmp_path)


COLLATE = """
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
def collate(items):
    series, targets = zip(*items)
    {sort}  # HERE
    lengths = torch.tensor([len(each) for each in series])
    return pad_sequence(series, batch_first=True), lengths, torch.stack(targets)
data = [(torch.randn(3 + k % 5, 5), torch.tensor(k % 2)) for k in range(40)]
reader = nn.GRU(5, 5, batch_first=True)
optimizer = torch.optim.Adam([*reader.parameters(), *model.parameters()], lr=0.01)
for x, lengths, labels in DataLoader(data, batch_size=10, shuffle=True, collate_fn=collate):
    state = reader(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted={enforced}))[1]
    loss = criterion(model(state[-1]), labels)
"""


def test_a_column_that_is_sorted_alone_is_told(tmp_path: Path) -> None:
    script = COLLATE.format(sort="series = sorted(series, key=len, reverse=True)", enforced=True)
    assert_first_alarm(START + script + TRAIN, "shuffled_apart", tmp_path)


@pytest.mark.parametrize(
    ("sort", "enforced"),
    [
        ("series, targets = zip(*sorted(items, key=lambda item: -len(item[0])))", True),
        ("series = sorted(series, key=len, reverse=True); targets = [t for _, t in sorted(items, key=len)]", True),
        ("longest = sorted(series, key=len)[-1]", False),
    ],
)
def test_columns_that_are_sorted_together_are_left_alone(sort: str, enforced: bool, tmp_path: Path) -> None:
    found = alarms(START + COLLATE.format(sort=sort, enforced=enforced) + TRAIN, tmp_path)
    assert "shuffled_apart" not in [each.cause for each in found]
