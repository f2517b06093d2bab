"""States of models that are kept on the wrong side of a comparison, and numbers that are turned around."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

_SCRIPT = """
x = torch.randn(60, 4)
y = (x[:, 0] > 0).long()
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
FIRST
for epoch in range(6):
    loss = F.cross_entropy(model(x[:40]), y[:40])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        scores = model(x[40:])
    KEPT
model.load_state_dict(state)
"""
_STOPPING = """
class Stopping:
    def __init__(self):
        self.best, self.waited = None, 0
    def __call__(self, val_loss, model):
        score = SCORE
        if self.best is None:
            self.best, self.state = score, copy.deepcopy(model.state_dict())
        elif score < self.best:HERE
            self.waited += 1
        else:
            self.best, self.state, self.waited = score, copy.deepcopy(model.state_dict()), 0
stop = Stopping()
"""
_STOPPED = ("held_out = F.cross_entropy(scores, y[40:]).item()", "stop(held_out, model)", "state = stop.state")


def of(first: str, *kept: str) -> str:
    return HEAD + _SCRIPT.replace("FIRST", first).replace("KEPT", "\n    ".join(kept))


def keeping(number: str, comparison: str, start: str = "0.0", name: str = "best") -> str:
    branch = f"{name}, state = value, copy.deepcopy(model.state_dict())"
    return of(f"{name} = {start}", f"value = {number}", f"if value {comparison} {name}:  # HERE", f"    {branch}")


_LOSS = "F.cross_entropy(scores, y[40:]).item()"
_RIGHT = "(scores.argmax(1) == y[40:]).float().mean().item()"


@pytest.mark.parametrize(
    "script",
    [
        keeping(_LOSS, ">"),
        keeping(_RIGHT, "<=", "1.0"),
        of(
            _STOPPING.replace("score = SCORE\n        ", "").replace("score", "val_loss").replace("HERE", "  # HERE"),
            *_STOPPED,
        ),
        of(
            "best_loss = 0\ndef held_out():\n    parts = zip(scores.split(10), y[40:].split(10))\n"
            "    return sum(F.cross_entropy(*part).item() for part in parts) / 2",
            "val_loss = held_out()",
            "if best_loss < val_loss:  # HERE",
            "    best_loss = val_loss",
            "    state = {key: value.clone() for key, value in model.state_dict().items()}",
        ),
    ],
    ids=["the largest loss", "the smallest accuracy", "early stopping", "by its name"],
)
def test_the_worst_state_is_kept(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "worst_state_kept", tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        keeping(_LOSS, "<", "float('inf')"),
        keeping(_RIGHT, ">="),
        keeping("-" + _LOSS, ">", "-float('inf')"),
        keeping(f"1 - {_LOSS} / 0.7", ">", "-9.0"),
        keeping(_LOSS, ">", name="worst"),
        of(_STOPPING.replace("SCORE", "-val_loss").replace("HERE", ""), *_STOPPED),
        # The inputs on which the model does worst.
        of(
            "best, state = 0.0, model.state_dict()",
            "value = F.cross_entropy(scores, y[40:]).item()",
            "if value > best:",
            "    best, hard = value, x[40:].clone()",
        ),
    ],
)
def test_states_that_are_kept_as_they_should(script: str, tmp_path: Path) -> None:
    assert "worst_state_kept" not in {each.cause for each in alarms(script, tmp_path)}
