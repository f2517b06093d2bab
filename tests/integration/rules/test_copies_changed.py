"""A change that goes to the elements that an index has copied, and to nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import alarms, assert_first_alarm

HEAD = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
table, rows = torch.zeros(10, 4), torch.tensor([1, 3])
for step in range(4):
    x = torch.randn(8, 4)
    loss = nn.functional.cross_entropy(model(x), torch.randint(6, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    scores = model(x)
"""
END = "    print(scores.argmax(1), table.mean(), model(x).sum())\n"

WRONG = {
    "seen items": "    scores[rows].masked_fill_(scores[rows] > 0, -9)  # HERE\n",
    "a mask": "    scores[scores > 1].clamp_(max=1)  # HERE\n",
    "a list and a second index": "    table[[0, 1]][:, 0] = 5.0  # HERE\n",
    "index_select": "    table.index_select(0, rows).add_(1)  # HERE\n",
    "weights": "    model.weight.data[rows].zero_()  # HERE\n",
    "a reshape that copies": "    model.weight.t().reshape(-1).mul_(0)  # HERE\n",
}

HEALTHY = {
    "views": "    table[2].add_(1)\n    table[2:4].mul_(2)\n    table.view(-1)[3] = 1\n    table.flatten()[3:] = 0\n",
    "assigned elements": "    table[rows] += 1\n    table[rows, 0] = 3\n    table[rows] = table[rows].add_(1)\n",
    "a result that is used": "    print(table[rows].add_(1).sum())\n    print(scores[rows].clamp_(min=0).amax(1))\n",
    "a result that a function returns": "    def shifted():\n        return table[rows].add_(1)\n    shifted()\n",
    "a copy with a name": "    part = table[rows]\n    part.add_(1)\n    print(part.sum())\n",
}


@pytest.mark.parametrize("shape", list(WRONG))
def test_changes_of_a_copy_that_nothing_reads_are_told(shape: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + WRONG[shape] + END, "copy_changed", tmp_path)


@pytest.mark.parametrize("look", list(HEALTHY))
def test_views_and_results_that_are_used_raise_no_alarm(look: str, tmp_path: Path) -> None:
    assert [f"{each.cause}: {each.message}" for each in alarms(HEAD + HEALTHY[look] + END, tmp_path)] == []
