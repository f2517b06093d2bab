"""Models and their optimizers in two orders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms

MEMBERS = """
models = {{"wide": nn.Linear(4, 8), "deep": nn.Linear(4, 3), "flat": nn.Linear(4, 1)}}
made = {{name: torch.optim.Adam(model.parameters(), lr=0.1) for name, model in models.items()}}
for step in range(4):
    x = torch.randn(8, 4)
    for model, optimizer in {pairs}:
        {clear}
        model(x).square().mean().backward()
        optimizer.step()  # HERE
        {after}
"""
OWN = "optimizer.zero_grad()"
ALL = "[each.zero_grad() for each in made.values()]"
SORTED = "zip([models[name] for name in sorted(models)], made.values())"
TURNED = "zip(reversed(models.values()), list(made.values()))"
TWO = "zip(list(models.values())[:2], list(made.values())[1::-1])"
PAIRED = "zip(models.values(), made.values())"


@pytest.mark.parametrize(("pairs", "clear"), [(SORTED, OWN), (SORTED, ALL), (TURNED, ALL), (TWO, OWN)])
def test_optimizers_of_other_models_are_told_where_they_step(pairs: str, clear: str, tmp_path: Path) -> None:
    script = HEAD + MEMBERS.format(pairs=pairs, clear=clear, after="pass")
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    found = [(each.cause, each.location and each.location.line) for each in alarms(script, tmp_path)]
    assert found == [("wrong_optimizer", here)]


@pytest.mark.parametrize(
    ("pairs", "clear", "after"),
    [
        (PAIRED, OWN, "pass"),
        (PAIRED, "pass", OWN),
        # One round later, each gradient is used after all.
        (TWO, "pass", OWN),
    ],
)
def test_optimizers_that_use_their_gradients_are_right(pairs: str, clear: str, after: str, tmp_path: Path) -> None:
    found = alarms(HEAD + MEMBERS.format(pairs=pairs, clear=clear, after=after), tmp_path)
    assert "wrong_optimizer" not in {each.cause for each in found}


def test_steps_right_after_clearing_belong_to_their_own_backward(tmp_path: Path) -> None:
    script = MEMBERS.format(pairs=PAIRED, clear="pass", after="pass").replace(
        "optimizer.step()", "optimizer.zero_grad(); optimizer.step()"
    )
    assert "wrong_optimizer" not in {each.cause for each in alarms(HEAD + script, tmp_path)}
