"""Early stopping whose counter is never set back, and counters that count something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

START = (
    HEAD
    + """
import math
from dataclasses import dataclass
x = torch.randn(60, 5)
y = (x.sum(1) > 0).long()
model = nn.Linear(5, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
def score():
    with torch.no_grad():
        return F.cross_entropy(model(x[40:]), y[40:]).item()
def one_epoch():
    loss = F.cross_entropy(model(x[:40]), y[:40])
"""
    + TRAIN
)
FAULTY = {
    "a loop": """
best, waited = math.inf, 0
for epoch in range(5):
    one_epoch()
    loss = score()
    if loss < best:
        best = loss
    else:
        waited += 1  # HERE
        if waited >= 3:
            break
""",
    "turned round, with a margin": """
def fit(patience, margin=0.001):
    lowest = 1e9
    bad = 0
    for epoch in range(5):
        one_epoch()
        loss = score()
        if lowest - loss <= margin:
            bad += 1  # HERE
        else:
            lowest, state = loss, copy.deepcopy(model.state_dict())
        if patience < bad:
            return state
fit(3)
""",
    "a class": """
class Stopper:
    def __init__(self, patience):
        self.patience, self.counter, self.best, self.stop = patience, 0, None, False
    def see(self, loss):
        value = -loss
        if self.best is None:
            self.best = value
        elif value < self.best + 0.01:
            self.counter += 1  # HERE
            if self.counter >= self.patience:
                self.stop = True
        else:
            self.best = value
stopper = Stopper(3)
for epoch in range(5):
    one_epoch()
    stopper.see(score())
    if stopper.stop:
        break
""",
    "a data class, and a condition with a name": """
@dataclass
class Watch:
    best: float = math.inf
    strikes: int = 0
    def is_over(self, value):
        is_better = value < self.best
        if is_better:
            self.best = value
        else:
            self.strikes += 1  # HERE
        return self.strikes > 2
watch = Watch()
for epoch in range(5):
    one_epoch()
    if watch.is_over(score()):
        break
""",
    "while": """
best, waited = math.inf, 0
while waited < 2:
    one_epoch()
    loss = score()
    if loss < best - 0.05:
        best = loss
    else:
        waited += 1  # HERE
""",
}
FAULTY |= {
    "what follows a return": """
class Stopper:
    def __init__(self):
        self.best, self.bad = None, 0
    def is_over(self, value):
        if self.best is None or value < self.best:
            self.best = value
            return False
        self.bad += 1  # HERE
        return self.bad >= 3
stopper = Stopper()
for epoch in range(5):
    one_epoch()
    if stopper.is_over(score()):
        break
""",
    "what follows a continue": """
best, waited = math.inf, 0
for epoch in range(5):
    one_epoch()
    loss = score()
    if loss < best:
        best = loss
        continue
    waited += 1  # HERE
    if waited >= 3:
        break
""",
    "a second condition": """
best, waited = math.inf, 0
for epoch in range(5):
    one_epoch()
    loss = score()
    if loss < best:
        best = loss
    if loss > best:
        waited += 1  # HERE
    if waited >= 3:
        break
""",
}
HEALTHY = {
    "set back before a return": FAULTY["what follows a return"].replace(
        "self.best = value\n", "self.best, self.bad = value, 0\n"
    ),
    "set back before a continue": FAULTY["what follows a continue"].replace(
        "best = loss\n", "best, waited = loss, 0\n"
    ),
    "set back beside a second condition": FAULTY["a second condition"].replace(
        "best = loss\n", "best, waited = loss, 0\n"
    ),
    "rounds below a second condition": FAULTY["a second condition"].replace("if loss > best:", "if epoch > 1:"),
    "set back": FAULTY["a loop"].replace("        best = loss\n", "        best = loss\n        waited = 0\n"),
    "set back beside it": FAULTY["a loop"].replace("best = loss\n", "best, waited = loss, 0\n"),
    "set back by another method": FAULTY["a data class, and a condition with a name"].replace(
        "        return",
        "        return self.over()\n    def reset(self):\n        self.strikes = 0\n"
        "    def over(self):\n        return",
    ),
    "set back from outside": FAULTY["a data class, and a condition with a name"] + "    watch.strikes = 0\n",
    "all failures beside those in a row": FAULTY["a loop"]
    .replace("best, waited = math.inf, 0", "best, waited, in_a_row = math.inf, 0, 0")
    .replace("best = loss\n", "best, in_a_row = loss, 0\n")
    .replace("waited += 1", "in_a_row += 1\n        waited += 1")
    .replace("waited >= 3", "in_a_row >= 3 or waited >= 20"),
    "only counted": FAULTY["a loop"].replace("        if waited >= 3:\n            break\n", "print(waited)\n"),
    "a rate that is cut": FAULTY["a loop"].replace("            break\n", "            waited = 0\n"),
    "rejected steps of a search": """
best, rejected = math.inf, 0
for epoch in range(5):
    one_epoch()
    loss = score()
    if loss < best:
        best = loss
        rejected = max(0, rejected - 1)
    else:
        rejected += 1
        if rejected > 3:
            break
""",
    "set back by a method that both use": """
class Stopper:
    def __init__(self):
        self.best = math.inf
        self.reset()
    def reset(self):
        self.bad = 0
    def is_over(self, value):
        if value < self.best:
            self.best = value
            self.reset()
        else:
            self.bad += 1
        return self.bad > 2
stopper = Stopper()
for epoch in range(5):
    one_epoch()
    if stopper.is_over(score()):
        break
""",
    "steps that are taken back": FAULTY["a loop"].replace(
        "        waited += 1", "        model.load_state_dict(copy.deepcopy(model.state_dict()))\n        waited += 1"
    ),
    "losses that leap": FAULTY["a loop"].replace("            break\n", "            raise RuntimeError(waited)\n"),
    "hits": """
limit, hits, misses = 0.5, 0, 0
for epoch in range(5):
    one_epoch()
    if score() < limit:
        hits += 1
    else:
        misses += 1
    if misses > 3:
        break
""",
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTY)
def test_a_counter_that_is_never_set_back_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(START + FAULTY[name], "failures_never_forgotten", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_counters_are_left_alone(name: str, tmp_path: Path) -> None:
    assert "failures_never_forgotten" not in {each.cause for each in alarms(START + HEALTHY[name], tmp_path)}
