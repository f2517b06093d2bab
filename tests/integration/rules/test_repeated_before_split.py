"""Rows that are repeated before a random split, so that copies are trained on and held out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
x = torch.randn(120, 6)
y = (x[:, 0] + 0.1 * torch.randn(120) > 1).float()
{repeated}
order = torch.randperm(len(y))
{split}
x_train, y_train, x_test, y_test = x[train], y[train], x[test], y[test]
{later}
net = nn.Sequential(nn.Linear(x.shape[1], 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = F.binary_cross_entropy_with_logits(net(x_train).squeeze(1), y_train)
"""
    + TRAIN
    + """
with torch.no_grad():
    print(((net(x_test).squeeze(1) > 0) == (y_test == 1)).float().mean())
"""
)
BOUNDS = "test, train = order[:24], order[24:]"
POSITIVE = "pos, neg = (y == 1).nonzero().squeeze(1), (y == 0).nonzero().squeeze(1)\n"


def script(repeated: str = "pass", split: str = BOUNDS, later: str = "pass") -> str:
    return PROGRAM.format(repeated=repeated, split=split, later=later)


@pytest.mark.parametrize("split", [BOUNDS, "test, train = order.split([24, len(order) - 24])"])
@pytest.mark.parametrize(
    "repeated",
    [
        POSITIVE
        + "rows = torch.cat([neg, pos[torch.randint(0, len(pos), (len(neg),))]])\nx, y = x[rows], y[rows]  # HERE",
        "rows = torch.arange(120).repeat_interleave(1 + 4 * y.long())\n"
        "x, y = x.index_select(0, rows), y.index_select(0, rows)  # HERE",
        "x, y = torch.cat([x, x[y == 1], x[y == 1]]), torch.cat([y, y[y == 1], y[y == 1]])  # HERE",
        POSITIVE + "x, y = torch.cat([x[neg], x[pos].repeat(5, 1)]), torch.cat([y[neg], y[pos].repeat(5)])  # HERE",
        POSITIVE + "a, b = x[pos], y[pos]\nx, y = torch.cat([x[neg]] + [a] * 4), torch.cat([y[neg]] + [b] * 4)  # HERE",
        "x, y = x.repeat(2, 1), y.repeat(2)  # HERE",
    ],
)
def test_rows_that_are_repeated_before_a_split_are_told(repeated: str, split: str, tmp_path: Path) -> None:
    assert_first_alarm(script(repeated, split), "repeated_before_split", tmp_path)


@pytest.mark.parametrize(
    ("repeated", "later"),
    [
        ("pass", "rows = torch.cat([torch.arange(len(y_train)), (y_train == 1).nonzero().squeeze(1).repeat(4)])\n"
         "x_train, y_train = x_train[rows], y_train[rows]"),
        # Everyone has many answers, which are not the same.
        ("who = torch.randint(0, 120, (400,))\nx, y = x[who], torch.randint(0, 2, (400,)).float()", "pass"),
        # Only fewer rows are taken.
        (POSITIVE + "keep = torch.cat([pos, neg[:40]])\nx, y = x[keep], y[keep]", "pass"),
        # Parts of two sources, put together.
        ("x, y = torch.cat([x, torch.randn(60, 6)]), torch.cat([y, torch.ones(60)])", "pass"),
        # All pairs.
        ("y = torch.randint(0, 2, (400,)).float()\n"
         "x = torch.cat([x[:20].repeat_interleave(20, 0), x[20:40].repeat(20, 1)], 1)", "pass"),
        # All cases that there are.
        ("x, y = x[:4].repeat(40, 1), torch.tensor([0., 1., 1., 0.]).repeat(40)", "pass"),
        # Copies with noise may be meant.
        ("x, y = x.repeat(2, 1) + 0.1 * torch.randn(240, 6), y.repeat(2)", "pass"),
    ],
)  # fmt: skip
def test_other_tables_are_right(repeated: str, later: str, tmp_path: Path) -> None:
    assert not alarms(script(repeated, later=later), tmp_path)


LOADED = (
    HEAD
    + """
from torch.utils.data import DataLoader, TensorDataset, random_split
x = torch.randn(120, 6)
y = (x[:, 0] + 0.1 * torch.randn(120) > 1).float()
{repeated}
data = TensorDataset(x, y)
train, test = random_split(data, [len(data) - 24, 24])
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for a, b in DataLoader(train, batch_size=16, shuffle=True):
    loss = F.binary_cross_entropy_with_logits(net(a).squeeze(1), b)
"""
    + TRAIN
    + """
with torch.no_grad():
    for a, b in DataLoader(test, batch_size=8):
        print(((net(a).squeeze(1) > 0) == (b == 1)).float().mean())
"""
)
MORE = "rows = torch.cat([torch.arange(120), (y == 1).nonzero().squeeze(1).repeat(4)])\n"


def test_data_sets_with_repeated_rows_that_are_split_are_told(tmp_path: Path) -> None:
    script = LOADED.format(repeated=MORE + "x, y = x[rows], y[rows]  # HERE")
    assert_first_alarm(script, "repeated_before_split", tmp_path)


@pytest.mark.parametrize(
    "repeated", ["pass", "who = torch.randint(0, 120, (300,))\nx, y = x[who], torch.randint(0, 2, (300,)).float()"]
)
def test_other_data_sets_that_are_split_are_right(repeated: str, tmp_path: Path) -> None:
    assert not alarms(LOADED.format(repeated=repeated), tmp_path)
