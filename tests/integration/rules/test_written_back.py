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
    everything = findings(script, tmp_path)
    assert [each for each in everything if each.is_alarm] == []
    found = [each for each in everything if each.cause == "step_without_effect"]
    assert [each.location.line for each in found if each.location] == [here]
    assert "behind the last step" in found[0].message


def test_other_values_are_no_restoration(tmp_path: Path) -> None:
    script = HEAD + MODEL + "model.load_state_dict({name: p + 1 for name, p in kept.items()})\n"
    assert [each for each in findings(script, tmp_path) if each.cause == "step_without_effect"] == []


MULTIPLIER = """
model, multiplier = nn.Linear(4, 1), nn.Parameter(torch.zeros(()))
optimizer, ascent = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD([multiplier], lr=0.1)
for step in range(4):
    out = model(torch.randn(16, 4))
    excess = out.square().mean() - 100
    optimizer.zero_grad()
    ((out - 1).square().mean() + multiplier.item() * excess).backward()
    optimizer.step()
    ascent.zero_grad()
    (-multiplier * excess.detach()).backward()
    ascent.step()
    multiplier.data.clamp_({bounds})
"""


@pytest.mark.parametrize(("bounds", "is_told"), [("min=0", False), ("0, 10", False), ("0, 0", True)])
def test_a_multiplier_that_a_clamp_holds_at_its_bound_is_right(bounds: str, *, is_told: bool, tmp_path: Path) -> None:
    causes = [each.cause for each in alarms(HEAD + MULTIPLIER.format(bounds=bounds), tmp_path)]
    assert causes == ["step_without_effect"] * is_told


CLEARED_BY_HAND = """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
{unused}
optimizer = torch.optim.SGD([*model.parameters(), *unused.parameters()], lr=0.1)
for step in range(4):
    x = torch.randn(16, 4)
    for p in [*model.parameters(), *unused.parameters()]:
        p.grad = None
    F.cross_entropy(model(x), torch.randint(0, 3, (16,))).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("unused", ["unused = nn.BatchNorm1d(4)", "unused = nn.Linear(4, 4)"])
def test_a_gradient_that_is_set_to_none_was_not_returned(unused: str, tmp_path: Path) -> None:
    found = findings(HEAD + CLEARED_BY_HAND.format(unused=unused), tmp_path)
    told = [each for each in found if any(name.startswith("unused.") for name in each.tensors)]
    assert told
    assert not any("autograd.grad()" in each.message for each in told)


OWN_OPTIMIZER = """
class Own(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, dict(lr=0.05))
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad, state = p.grad.data.float(), self.state[p]
                state.setdefault("mean", torch.zeros_like(grad)).mul_(0.9).add_(grad, alpha=0.1)
                {moved}
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = Own(model.parameters())
for step in range(4):
    x = torch.randn(16, 4)
    loss = F.cross_entropy(model(x), (x[:, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WRITTEN_BACK = [
    "own = p.data.float()\n                own.add_(state['mean'], alpha=-0.05)\n                p.data.copy_(own)",
    "own = p.data.to(torch.float32)\n                own -= 0.05 * state['mean']\n                p.data.copy_(own)",
    "own = p.detach()\n                own.mul_(0.999).sub_(0.05 * state['mean'])\n"
    "                with torch.no_grad():\n                    p.copy_(own)",
]
AVERAGED = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = [p.data for p in model.parameters()]  # HERE
for step in range(4):
    x = torch.randn(16, 4)
    optimizer.zero_grad()
    F.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()
    for own in kept:
        own.mul_(0.99)
for p, own in zip(model.parameters(), kept):
    p.data.copy_(own)
"""


@pytest.mark.parametrize("moved", WRITTEN_BACK)
def test_what_an_optimizer_writes_back_where_it_lies_is_no_lost_copy(moved: str, tmp_path: Path) -> None:
    assert alarms(HEAD + OWN_OPTIMIZER.format(moved=moved), tmp_path) == []


def test_what_shares_the_memory_of_parameters_that_train_is_no_copy_of_them(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + AVERAGED, "copied_onto_itself", tmp_path)
