"""Callbacks that replace a layer after the optimizer was made, and the loops that tell callbacks what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, in_files

MODEL = """
import torch
from torch import nn
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))
    def add_classes(self, count):
        self.head = nn.Linear(8, self.head.out_features + count)
"""
CALLBACKS = """
from torch import nn
class Grow:
    def task_starts(self, trainer, task):
        if task > 0:
            ACTS
class Report:
    def task_starts(self, trainer, task):
        trainer.shown.append(task)
"""
TRAINER = """
import torch
import torch.nn.functional as F
class Trainer:
    def __init__(self, model, callbacks):
        self.model, self.callbacks, self.shown = model, callbacks, []
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def notify(self, event, task):
        for each in self.callbacks:
            TELLS
    def fit(self):
        for task in range(3):
            self.notify("task_starts", task)
            for step in range(3):
                loss = F.cross_entropy(self.model(torch.randn(8, 4)), torch.randint(3, (8,)))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
"""
SCRIPT = """
from own_model import Tagger
from own_callbacks import Grow, Report
from own_trainer import Trainer
Trainer(Tagger(), [Grow(), Report()]).fit()
"""
METHOD, OWN = "trainer.model.add_classes(2)", "trainer.model.head = nn.Linear(8, 3 + 2 * task)"
PROGRAMS = {
    "a method of the model, told by a name": (f"{METHOD}  # HERE", "getattr(each, event)(self, task)"),
    "a method of the model, told by a method": (f"{METHOD}  # HERE", "each.task_starts(self, task)"),
    "an assignment, told by a name": (f"{OWN}  # HERE", "getattr(each, event)(self, task)"),
    "a trainer that grows the model itself": (
        "pass",
        "self.model.add_classes(2) if task and each is self.callbacks[0] else None  # HERE",
    ),
    "a trainer that asks the parts of a model": (
        "pass",
        "[part.add_classes(task) for part in [self.model] if task]  # HERE",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_line_that_replaces_a_layer_is_told_not_the_loop_over_callbacks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts, tells = PROGRAMS[name]
    files = {
        "own_model": MODEL,
        "own_callbacks": CALLBACKS.replace("ACTS", acts),
        "own_trainer": TRAINER.replace("TELLS", tells),
    }
    found = alarms(HEAD + in_files(files, tmp_path, monkeypatch) + SCRIPT, tmp_path)
    # One alarm for both replacements: the third head has replaced the second.
    assert [each.cause for each in found] == ["stale_optimizer_params"]
    location = found[0].location
    assert location is not None
    assert Path(location.file).read_text().splitlines()[location.line - 1].endswith("# HERE")
    made = "at line 7" if location.file.endswith("own_trainer.py") else "in own_trainer.py:7"
    assert f"after the optimizer was made {made}" in found[0].message
