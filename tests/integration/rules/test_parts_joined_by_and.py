"""Masks of the parts of a data set, and what is left of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
x, order = torch.randn(80, 4), torch.randperm(80)
y = x.sum(1, keepdim=True)
train, held_out = torch.zeros(80, dtype=torch.bool), torch.zeros(80, dtype=torch.bool)
train[order[:40]], held_out[order[40:55]] = True, True
{lines}
def error(net, part):
    return F.mse_loss(net(x[part]), y[part]).item()
net = nn.Sequential(nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = F.mse_loss(net(x)[train], y[train])
"""
    + TRAIN
    + """
with torch.no_grad():
    print(error(net, held_out), error(net, rest))
"""
)


@pytest.mark.parametrize(
    "lines",
    [
        "rest = ~(train & held_out)  # HERE",
        "rest = torch.logical_not(train * held_out)  # HERE",
        "both = torch.logical_and(held_out, train)  # HERE\nrest = ~both",
    ],
)
def test_a_rest_that_is_everything_is_told(lines: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM.format(lines=lines), "parts_joined_by_and", tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        "rest = ~(train | held_out)",
        "rest = ~train & ~held_out",
        # Some are in both, and only these are left out.
        "train[order[50:60]] = True\nrest = ~(train & held_out)",
        # A check that no sample is in both parts.
        "assert (~(train & held_out)).all()\nrest = ~(train | held_out)",
    ],
)
def test_a_rest_without_both_parts_is_right(lines: str, tmp_path: Path) -> None:
    assert not alarms(PROGRAM.format(lines=lines), tmp_path)
