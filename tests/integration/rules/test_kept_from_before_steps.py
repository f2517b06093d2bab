"""Results of weights that a model keeps, and takes again after further steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import alarms, assert_first_alarm

SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
features = torch.randn(20, 6)
class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Embedding(12, 8), nn.Linear(6, 8)
        self._table = NOTHING
    def vectors(self):
        return self.item(features)
    def table(self):
TABLE
    def rank(self, users):
        return (self.user(users) @ self.table().t()).topk(3, dim=1).indices
model = Towers()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
liked = torch.randint(0, 20, (12,))
for epoch in range(4):
    for step in range(5):
        users = torch.randint(0, 12, (8,))
        other = torch.randint(0, 20, (8,))
        vectors = model.vectors()
        gap = (model.user(users) * (vectors[liked[users]] - vectors[other])).sum(1)
        loss = -nn.functional.logsigmoid(gap).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        AFTER
    with torch.no_grad():
        print(model.rank(torch.arange(12))[0])
"""
LAZY = """
        if self._table is None:
            self._table = self.vectors()  # HERE
        return self._table
"""
BY_KEY = """
        if "all" not in self._table:
            self._table["all"] = self.vectors()  # HERE
        return self._table["all"]
"""
FRESH = """
        self._table = self.vectors()
        return self._table
"""


def _script(table: str, *, nothing: str = "None", after: str = "pass") -> str:
    script = SCRIPT.replace("TABLE", table.strip("\n")).replace("NOTHING", nothing)
    return script.replace("AFTER", after)


@pytest.mark.parametrize(("table", "nothing"), [(LAZY, "None"), (BY_KEY, "{}")])
def test_what_is_kept_from_before_further_steps_is_told(table: str, nothing: str, tmp_path: Path) -> None:
    assert_first_alarm(_script(table, nothing=nothing), "kept_from_before_steps", tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        _script(FRESH),
        _script(LAZY, after="model._table = None"),
        _script(BY_KEY, nothing="{}", after="model._table.clear()"),
        _script(LAZY.replace("self.vectors()", "features @ torch.ones(6, 8)")),
        _script(LAZY).replace("    with torch.no_grad():\n        print", "with torch.no_grad():\n    print"),
    ],
)
def test_what_is_computed_anew_raises_no_alarm(script: str, tmp_path: Path) -> None:
    assert [f"{each.cause}: {each.message}" for each in alarms(script, tmp_path)] == []
