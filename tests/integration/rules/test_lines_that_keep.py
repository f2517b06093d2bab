"""A state that is carried over with its graph is told at the statement that keeps it, where it is not a variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = (
    HEAD + "from collections import deque\nmodel = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))\n"
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.05)\n"
)
BALANCE = (
    MODEL + "class Balance:\n    def __init__(self):\n        self.history, self.last = deque(maxlen=2), {{}}\n"
    "        self.previous = None\n"
    "    def __call__(self, losses):\n        stacked = torch.stack(losses)\n{body}"
    "        return (weight * stacked).sum()\n"
    "balance = Balance()\nfor step in range(5):\n    out = model(torch.randn(16, 4))\n"
    "    loss = balance(list(out.square().mean(0).unbind()))" + TRAIN
)
IN_A_DEQUE = """        weight = torch.ones(3)
        if len(self.history) == 2:
            weight = F.softmax(self.history[1] / self.history[0], dim=0)
        self.history.append(KEPT)  # HERE
"""
IN_A_DICT = """        before = self.last.get("losses")
        weight = torch.ones(3) if before is None else F.softmax(stacked.detach() / before, dim=0)
        self.last["losses"] = KEPT  # HERE
"""
IN_AN_ATTRIBUTE = """        weight = torch.ones(3)
        if self.previous is not None:
            before = self.previous
            weight = F.softmax(stacked.detach() / before, dim=0)
        self.previous = KEPT  # HERE
"""
IN_A_PAIR = """        weight = torch.ones(3)
        for before, _ in self.history:
            weight = weight * F.softmax(before, dim=0)
        self.history.append((KEPT, 1))  # HERE
"""
IN_A_LIST_OF_THE_LOOP = (
    MODEL + "kept = []\nfor step in range(4):\n    out = model(torch.randn(16, 4)).square().mean()\n"
    "    loss = out if not kept else out + 0.1 * (out - kept[-1]).square()\n"
    "    kept.append(KEPT)  # HERE" + TRAIN
)
BODIES = {"a deque": IN_A_DEQUE, "a dict": IN_A_DICT, "an attribute": IN_AN_ATTRIBUTE, "a pair in a deque": IN_A_PAIR}
SCRIPTS = {name: (BALANCE.format(body=body), "stacked") for name, body in BODIES.items()} | {
    "a list of the loop": (IN_A_LIST_OF_THE_LOOP, "out")
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_state_is_told_where_it_is_kept(name: str, tmp_path: Path) -> None:
    script, variable = SCRIPTS[name]
    assert_first_alarm(script.replace("KEPT", variable), "state_not_detached", tmp_path)
    first = alarms(script.replace("KEPT", variable), tmp_path)[0]
    assert f"{variable}.detach()" in first.fix
    assert [each.cause for each in alarms(script.replace("KEPT", f"{variable}.detach()"), tmp_path)] == []


CELL = (
    HEAD + "cell, head = nn.GRUCell(3, 4), nn.Linear(4, 1)\n"
    "optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)\n"
)
ELSEWHERE = {
    "a variable carries it, and a list keeps it for a plot": CELL
    + "h, shown = torch.zeros(2, 4), []\nfor step in range(4):\n    h = cell(torch.randn(2, 3), h)  # HERE\n"
    "    shown.append(h)\n    loss = head(h).square().mean()" + TRAIN,
    "a list keeps it without its graph": CELL
    + "h, shown = torch.zeros(2, 4), []\nfor step in range(4):\n    h = cell(torch.randn(2, 3), h)  # HERE\n"
    "    shown.append(h.detach())\n    loss = head(h).square().mean()" + TRAIN,
    "a list of this step keeps what a variable carries": CELL
    + "h = torch.zeros(2, 4)\nfor step in range(4):\n    outs = []\n    for _ in range(2):\n"
    "        h = cell(torch.randn(2, 3), h)  # HERE\n        outs.append(h)\n"
    "    loss = head(torch.stack(outs)).square().mean()" + TRAIN,
    "the line that computes it keeps it": CELL
    + "kept = [torch.zeros(2, 4)]\nfor step in range(4):\n    kept.append(cell(torch.randn(2, 3), kept[-1]))  # HERE\n"
    "    loss = head(kept[-1]).square().mean()" + TRAIN,
}  # fmt: skip


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_state_that_a_variable_carries_is_told_where_it_is_computed(name: str, tmp_path: Path) -> None:
    assert_first_alarm(ELSEWHERE[name], "state_not_detached", tmp_path)
