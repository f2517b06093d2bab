"""Steps whose values the program itself replaces by the old ones, and programs that restore what they began with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm, findings

MODEL = """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = copy.deepcopy(model.state_dict())
old = [p.detach().clone() for p in model.parameters()]
for step in range(4):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BEHIND_EACH_STEP = {
    "load_state_dict": "    model.load_state_dict(kept)  # HERE",
    "copy_": """    with torch.no_grad():
        for p, before in zip(model.parameters(), old):
            p.copy_(before)  # HERE""",
    "copy_ through data": """    for p, before in zip(model.parameters(), old):
        p.data.copy_(before)  # HERE""",
    "assigned data": """    for p, before in zip(model.parameters(), old):
        p.data = before.clone()  # HERE""",
}
RESTORED = {
    "once, after all steps": "model.load_state_dict(kept)  # HERE",
    "after a prediction for one batch": """    with torch.no_grad():
        print(model(x).argmax(1))
    model.load_state_dict(kept)  # HERE""",
}


@pytest.mark.parametrize("name", BEHIND_EACH_STEP)
def test_what_undoes_each_step_is_told_at_its_line(name: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + MODEL + BEHIND_EACH_STEP[name], "step_without_effect", tmp_path)


@pytest.mark.parametrize("name", RESTORED)
def test_values_that_are_restored_on_purpose_are_a_note(name: str, tmp_path: Path) -> None:
    script = HEAD + MODEL + RESTORED[name]
    here = next(number for number, line in enumerate(script.splitlines(), 1) if line.endswith("# HERE"))
    assert alarms(script, tmp_path) == []
    found = [each for each in findings(script, tmp_path) if each.cause == "step_without_effect"]
    assert [each.location.line for each in found if each.location] == [here]
    assert "behind the last step" in found[0].message


def test_other_values_are_no_restoration(tmp_path: Path) -> None:
    script = HEAD + MODEL + "model.load_state_dict({name: p + 1 for name, p in kept.items()})\n"
    assert [each for each in findings(script, tmp_path) if each.cause == "step_without_effect"] == []
