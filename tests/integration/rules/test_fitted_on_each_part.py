"""Scalers and encoders that are fitted to one part of the data, or to several."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
class Scaler:
    def fit_transform(self, x):
        self.mean, self.std = x.mean(0), x.std(0)
        return self.transform(x)

    def transform(self, x):
        return (x - self.mean) / self.std

def train_test_split(*arrays):
    return [part for array in arrays for part in (array[:60], array[60:])]

data, wanted = torch.randn(80, 4), torch.randn(80, 1)
x, t, y, z = train_test_split(data, wanted)
{lines}
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = F.mse_loss(net(x), y)
"""
    + TRAIN
)


@pytest.mark.parametrize(
    "lines",
    [
        "scaler = Scaler()\nx = scaler.fit_transform(x)\nt = scaler.fit_transform(t)  # HERE",
        "x, t = Scaler().fit_transform(x), Scaler().fit_transform(t)  # HERE",
        "a, b = data[:60], data[60:]\nx = Scaler().fit_transform(a)\nt = Scaler().fit_transform(b)  # HERE",
    ],
)
def test_what_is_fitted_to_both_parts_is_told(lines: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM.format(lines=lines), "fitted_on_each_part", tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        "scaler = Scaler()\nx = scaler.fit_transform(x)\nt = scaler.transform(t)",
        "x, y = Scaler().fit_transform(x), Scaler().fit_transform(y)",
        "scaler = Scaler()\nx[:, :2], x[:, 2:] = scaler.fit_transform(x[:, :2]), scaler.fit_transform(x[:, 2:])",
        "class View:\n    def fit_transform(self, x):\n        return x @ torch.linalg.svd(x).Vh[:2].T\n"
        "print(View().fit_transform(x), View().fit_transform(t))",
        "one, other = data.T[:2], data.T[2:]\nx[:, :2] = Scaler().fit_transform(one.T)[:60]\n"
        "x[:, 2:] = Scaler().fit_transform(other.T)[:60]",
        "scaler = Scaler()\na, b = scaler.fit_transform(x), scaler.transform(t)\n"
        "scaler = Scaler()\nb, a = scaler.fit_transform(t), scaler.transform(x)",
    ],
    ids=["transform", "inputs and targets", "columns", "views", "rows of another axis", "each part in its turn"],
)
def test_what_is_fitted_to_one_part_is_right(lines: str, tmp_path: Path) -> None:
    assert not alarms(PROGRAM.format(lines=lines), tmp_path)


CODED = (
    HEAD
    + """
import numpy as np
rng = np.random.default_rng(0)
cities = np.array(["b", "c", "d", "e", "f", "a"])
table = {{"city": cities[rng.integers(0, 6, 90)], "price": rng.normal(size=90)}}
held_out = {{"city": cities[rng.integers(2, 6, 40)], "price": rng.normal(size=40)}}

class Coder:
    def fit(self, table):
        self.known = np.unique(table["city"])
        return self

    def transform(self, table):
        {coded}
        return torch.from_numpy(codes).long(), torch.from_numpy(table["price"]).float()

coder = Coder().fit(table)
x, y = coder.transform(table)
t, z = coder.transform(held_out)
embed, head = nn.Embedding(6, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
for step in range(4):
    rows = torch.randint(0, 90, (30,))
    loss = F.mse_loss(head(embed(x[rows])).squeeze(1), y[rows])
"""
    + TRAIN
    + """
with torch.no_grad():
    print(F.mse_loss(head(embed(t)).squeeze(1), z), F.mse_loss(head(embed(x)).squeeze(1), y))
"""
)


@pytest.mark.parametrize(
    "coded",
    [
        '_, codes = np.unique(table["city"], return_inverse=True)  # HERE',
        'codes = np.unique(table["city"], return_inverse=True)[1]  # HERE',
    ],
)
def test_categories_that_are_numbered_anew_are_told(coded: str, tmp_path: Path) -> None:
    assert_first_alarm(CODED.format(coded=coded), "fitted_on_each_part", tmp_path)


def test_categories_that_are_looked_up_are_right(tmp_path: Path) -> None:
    assert not alarms(CODED.format(coded='codes = np.searchsorted(self.known, table["city"])'), tmp_path)


BY_HAND = (
    HEAD
    + """
from torch.utils.data import DataLoader, TensorDataset
def standardized(x, like):
    return (x - like.mean(0)) / like.std(0)
data, wanted = 3 * torch.randn(80, 4) + 5, torch.randn(80, 1)
{parts}
net = nn.Sequential(nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(first, wanted[:60]), batch_size=20, shuffle=True):
    loss = F.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print(sum(F.mse_loss(net(x), y) for x, y in DataLoader(TensorDataset(second, wanted[60:]), batch_size=10)))
"""
)


@pytest.mark.parametrize(
    "parts",
    [
        "first = (data[:60] - data[:60].mean(0)) / data[:60].std(0)\n"
        "second = (data[60:] - data[60:].mean(0)) / data[60:].std(0)  # HERE",
        "a, b = data[:60], data[60:]\nm, n = a.mean(dim=0, keepdim=True), b.mean(dim=0, keepdim=True)  # HERE\n"
        "first, second = a - m, b - n",
        "order = torch.randperm(80)\na, b = data[order[:60]], data[order[60:]]\nm = b.mean(0)  # HERE\n"
        "first, second = a - a.mean(0), b - m",
    ],
)
def test_parts_that_are_standardized_with_their_own_means(parts: str, tmp_path: Path) -> None:
    assert_first_alarm(BY_HAND.format(parts=parts), "fitted_on_each_part", tmp_path)


@pytest.mark.parametrize(
    "parts",
    [
        "first, second = standardized(data[:60], data[:60]), standardized(data[60:], data[:60])",
        "whole = standardized(data, data)\nfirst, second = whole[:60], whole[60:]",
        # Each sample by its own mean.
        "a, b = data[:60], data[60:]\nfirst, second = a - a.mean(1, keepdim=True), b - b.mean(1, keepdim=True)",
        # Two tables of their own, as two sensors have them.
        "other = 2 * torch.randn(20, 4) - 1\nfirst, second = standardized(data[:60], data[:60]), other - other.mean(0)",
        # Each recording of ten samples by its own mean.
        "each = torch.cat([part - part.mean(0) for part in data.split(10)])\nfirst, second = each[:60], each[60:]",
    ],
)
def test_parts_with_the_mean_of_the_training_or_of_each_sample(parts: str, tmp_path: Path) -> None:
    found = alarms(BY_HAND.format(parts=parts), tmp_path)
    assert "fitted_on_each_part" not in {finding.cause for finding in found}
