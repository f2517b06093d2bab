"""Programs that keep the best state, and the score that says which one it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

START = (
    HEAD
    + """
import math
import io
x = torch.randn(60, 5)
y = (x.sum(1) > 0).long()
model = nn.Linear(5, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
def score():
    with torch.no_grad():
        return (model(x[40:]).argmax(1) == y[40:]).float().mean().item()
def one_epoch():
    loss = F.cross_entropy(model(x[:40]), y[:40])
"""
    + TRAIN
)
FAULTY = {
    "the best accuracy": """
best_acc = 0.0
for epoch in range(4):
    one_epoch()
    acc = score()
    if acc > best_acc:  # HERE
        state = copy.deepcopy(model.state_dict())
        print("best", acc)
model.load_state_dict(state)
""",
    "saved in a function": """
def fit(epochs):
    lowest = math.inf
    for epoch in range(epochs):
        one_epoch()
        error = 1 - score()
        if epoch > 0 and lowest > error:  # HERE
            torch.save(model.state_dict(), io.BytesIO())
fit(4)
""",
    "a counter of patience": """
patience, best = 0, -1
for epoch in range(4):
    one_epoch()
    if score() > best:  # HERE
        patience = 0
    else:
        patience += 1
    if patience > 3:
        break
""",
    "a change that would have to be negative": """
previous, best = 1.0, math.inf
for epoch in range(4):
    one_epoch()
    error = 1 - score()
    change = error - previous
    if change < best:  # HERE
        state = copy.deepcopy(model.state_dict())
    previous = error
""",
    "a negative start": """
best = -0.1
for epoch in range(4):
    one_epoch()
    acc = score()
    if acc > best:  # HERE
        state = copy.deepcopy(model.state_dict())
""",
}
HEALTHY = {
    "any finite score": """
largest = math.inf
for epoch in range(4):
    one_epoch()
    loss = score()
    if -largest < loss and loss < largest:
        state = copy.deepcopy(model.state_dict())
""",
    "no progress since the last epoch": """
previous, tolerance, stalled = math.inf, 0.0, 0
for epoch in range(6):
    one_epoch()
    error = 1 - score()
    progress = previous - error
    if progress > tolerance:
        stalled = 0
    else:
        stalled += 1
    previous = error
    if stalled > 2:
        break
""",
    "a negative goal that is missed at first": """
goal, saved = -0.5, []
for epoch in range(6):
    one_epoch()
    value = score() - (1.6 if epoch < 3 else 1.0)
    if value > goal:
        saved.append(copy.deepcopy(model.state_dict()))
""",
    "a gain over the best one": """
lowest, least = math.inf, 0.0
for epoch in range(4):
    one_epoch()
    error = 1 - score()
    gain = lowest - error
    if gain > least:
        lowest = error
        state = copy.deepcopy(model.state_dict())
model.load_state_dict(state)
""",
    "a limit behind which it goes back": """
limit, state = 1e6, copy.deepcopy(model.state_dict())
for epoch in range(4):
    one_epoch()
    error = 1 - score()
    if error < limit:
        state = copy.deepcopy(model.state_dict())
    else:
        model.load_state_dict(state)
""",
    "updated": """
best_acc = 0.0
for epoch in range(4):
    one_epoch()
    acc = score()
    if acc > best_acc:
        best_acc = acc
        state = copy.deepcopy(model.state_dict())
""",
    "updated by max()": """
best_acc = 0.0
for epoch in range(4):
    one_epoch()
    acc = score()
    if acc > best_acc:
        state = copy.deepcopy(model.state_dict())
    best_acc = max(acc, best_acc)
""",
    "an attribute that a method sets": """
class Keeper:
    def __init__(self):
        self.best = -math.inf
    def see(self, value):
        if value > self.best:
            self.best = value
            self.state = copy.deepcopy(model.state_dict())
keeper = Keeper()
for epoch in range(4):
    one_epoch()
    keeper.see(score())
""",
    "a threshold": """
wanted = 0.6
for epoch in range(4):
    one_epoch()
    acc = score()
    if acc > wanted:
        state = copy.deepcopy(model.state_dict())
""",
    "the end at the first one": """
least = 0
for epoch in range(4):
    one_epoch()
    acc = score()
    if acc > least:
        torch.save(model.state_dict(), io.BytesIO())
        break
""",
    "not before an epoch": """
first = 0
step = 0
for epoch in range(4):
    one_epoch()
    step += 1
    if epoch > first and step > first:
        torch.save(model.state_dict(), io.BytesIO())
""",
    "a global name": """
best_acc = 0.0
def keep(acc):
    global best_acc
    best_acc = acc
for epoch in range(4):
    one_epoch()
    acc = score()
    if acc > best_acc:
        state = copy.deepcopy(model.state_dict())
        keep(acc)
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_best_score_that_stays_as_it_was_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(START + FAULTY[name], "best_never_updated", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_comparisons_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(START + HEALTHY[name], tmp_path)
