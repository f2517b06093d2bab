"""Programs that lower a learning rate themselves where a number did not get better."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

CAUSE = "plateau_of_wrong_side"
DATA = """
model = nn.Linear(4, 3)
x, y = torch.randn(24, 4), torch.randint(0, 3, (24,))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def measure():
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()
def train():
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
"""
LOOP = """
best, waited = {first}, 0
for epoch in range(4):
    error = train()
    {name} = measure()
    if {test}:{mark}
        best, waited = {kept}, 0
    else:
        waited += 1
        if waited > 1:
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
            waited = 0
"""
TURNED = """
best, waited = 0.0, 0
for epoch in range(4):
    train()
    accuracy = measure()
    if accuracy >= best:  # HERE
        waited += 1
    else:
        best = accuracy
    if waited >= 2:
        for group in optimizer.param_groups:
            group["lr"] = max(group["lr"] * 0.1, 1e-6)
"""
OWN = """
class Plateau:
    def __init__(self, optimizer):
        self.optimizer, self.best, self.waited = optimizer, float("{first}"), 0
    def {method}(self, value):
        if value {sign} self.best:  # HERE
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited > 1:
            self.optimizer.param_groups[0]["lr"] /= 10
plateau = Plateau(optimizer)
for epoch in range(4):
    {train}
"""
AT_ACCURACY = "train()\n    val_acc = measure()\n    "


def loop(test: str, name: str = "score", first: str = "9.0", kept: str = "") -> str:
    return HEAD + DATA + LOOP.format(test=test, name=name, first=first, kept=kept or name, mark="  # HERE")


TOLD = (
    loop("score < best"),
    loop("best > score"),
    loop("not epoch or score <= best", first="0.0"),
    loop("error > best", first="0.0", kept="error"),
    HEAD + DATA + TURNED,
    HEAD + DATA + OWN.format(first="inf", method="step", sign="<", train=AT_ACCURACY + "plateau.step(val_acc)"),
    HEAD + DATA + OWN.format(first="inf", method="__call__", sign="<", train=AT_ACCURACY + "plateau(val_acc)"),
)
RIGHT = (
    loop("score > best", first="0.0"),
    loop("error < best", kept="error"),
    loop("error < best - 1e-3", kept="error"),
    HEAD + DATA + TURNED.replace(">= best", "<= best"),
    HEAD + DATA + OWN.format(first="-inf", method="step", sign=">", train=AT_ACCURACY + "plateau.step(val_acc)"),
    HEAD + DATA + OWN.format(first="inf", method="step", sign="<", train=AT_ACCURACY + "plateau.step(1 - val_acc)"),
    HEAD + DATA + OWN.format(first="inf", method="step", sign="<", train=AT_ACCURACY + "plateau.step(-val_acc)"),
    HEAD + DATA + OWN.format(first="inf", method="step", sign="<", train="plateau.step(train())"),
    # the lowest accuracy is kept for something else
    loop("score < best").replace('group["lr"] *= 0.5', "group['momentum'] = 0.5"),
)


@pytest.mark.parametrize("script", TOLD)
def test_the_wrong_side_of_the_best_number_is_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, CAUSE, tmp_path)


@pytest.mark.parametrize("script", RIGHT)
def test_the_better_side_and_unknown_numbers_are_right(script: str, tmp_path: Path) -> None:
    assert CAUSE not in {each.cause for each in alarms(script, tmp_path)}
