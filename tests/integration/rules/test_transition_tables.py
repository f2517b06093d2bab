"""Tables of the next state that are normalized over the axis over which a forward recursion sums; and recursions
that are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = (
    HEAD
    + (
        "start, move = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.randn(4, 4))\n"
        "emit = nn.Parameter(torch.randn(4, 6))\n"
        "optimizer = torch.optim.SGD([start, move, emit], lr=0.01)\nfor step in range(3):\n"
        "    ids = torch.randint(0, 6, (8, 7))\n    seen = emit.log_softmax(1).t()[ids]\n    table = {}\n{}"
        "    loss = -log.mean()"
    )
    + TRAIN
)
FORWARD = (
    "    a = start.log_softmax(0) + seen[:, 0]\n    for t in range(1, 7):\n"
    "        a = (a[:, :, None] + table).logsumexp(1) + seen[:, t]\n    log = a.logsumexp(1)\n"
)
UNBOUND = (
    "    a = start.log_softmax(0) + seen[:, 0]\n    for each in seen[:, 1:].unbind(1):\n"
    "        a = each + torch.logsumexp(torch.add(a.unsqueeze(2), table), dim=1)\n    log = a.logsumexp(1)\n"
)
ROWS = (
    "    a = start.log_softmax(0) + seen[:, 0]\n    for each in seen[:, 1:].unbind(1):\n"
    "        a = torch.logsumexp(a.unsqueeze(1) + table, dim=2) + each\n    log = a.logsumexp(1)\n"
)
BACKWARD = (
    "    b = torch.zeros(8, 4) + seen[:, 6]\n    for t in range(5, -1, -1):\n"
    "        b = (table + b[:, None, :]).logsumexp(2) + seen[:, t]\n    log = (start.log_softmax(0) + b).logsumexp(1)\n"
)

TOLD = {
    "a table less its logsumexp": MODEL.format("move - move.logsumexp(0, keepdim=True)  # HERE", UNBOUND),
    "log_softmax over the states before": MODEL.format("F.log_softmax(move, dim=0)  # HERE", FORWARD),
    "log_softmax of a table whose columns are the states before": MODEL.format("move.log_softmax(1)  # HERE", ROWS),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_table_over_the_axis_of_the_sum_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(TOLD[name], "wrong_axis", tmp_path)


HEALTHY = {
    "a table over the next states": MODEL.format("move - move.logsumexp(1, keepdim=True)", UNBOUND),
    "log_softmax over the next states": MODEL.format("move.log_softmax(1)", FORWARD),
    "a table whose columns are the states before": MODEL.format("move.log_softmax(0)", ROWS),
    "a recursion from the end": MODEL.format("move.log_softmax(1)", BACKWARD),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_recursions_that_are_right_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
