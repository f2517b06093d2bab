"""Generator expressions under ``no_grad()`` that compute when the block has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
def guess(views):
    GUESS
for step in range(4):
    x, y, u = torch.randn(8, 4), torch.randint(0, 3, (8,)), torch.randn(16, 4)
    target = guess([u + 0.1 * torch.randn(16, 4) for _ in range(2)])
    loss = F.cross_entropy(model(x), y) + (model(u).softmax(1) - target).square().sum(1).mean()
"""
    + TRAIN
)
LATE = {
    "a generator expression": """with torch.no_grad():
        found = (model(view).softmax(1) for view in views)  # HERE
    return sum(found) / 2""",
    "map()": """with torch.inference_mode():
        found = map(lambda view: model(view).softmax(1), views)  # HERE
    return torch.stack(list(found)).mean(0)""",
    "a generator that the block returns": """def each():
        with torch.no_grad():
            return (model(view).softmax(1) for view in views)  # HERE
    return sum(each()) / 2""",
}
IN_TIME = {
    "a list": """with torch.no_grad():
        found = [model(view).softmax(1) for view in views]
    return sum(found) / 2""",
    "a sum in the block": """with torch.no_grad():
        found = (model(view).softmax(1) for view in views)
        return sum(found) / 2""",
    "a generator that takes parts of what the block computed": """with torch.no_grad():
        found = [model(view) for view in views]
        weights = (each.softmax(1) for each in found)
    return sum(weights) / 2""",
    "a sum that is detached": """with torch.no_grad():
        found = (model(view).softmax(1) for view in views)
    return (sum(found) / 2).detach()""",
}


@pytest.mark.parametrize("name", LATE)
def test_a_generator_that_runs_behind_the_block_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM.replace("GUESS", LATE[name]), "gradient_into_target", tmp_path)


@pytest.mark.parametrize("name", IN_TIME)
def test_what_runs_in_the_block_is_right(name: str, tmp_path: Path) -> None:
    assert not alarms(PROGRAM.replace("GUESS", IN_TIME[name]), tmp_path)


BOOTSTRAPPED = (
    HEAD
    + """
value = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(value.parameters(), lr=0.01)
def bootstrap(reward, after):
    return reward + 0.9 * value(after).squeeze(-1)
for step in range(4):
    parts = [(torch.randn(8, 4), torch.randn(8), torch.randn(8, 4)) for _ in range(3)]
    with torch.no_grad():
        targets = (bootstrap(reward, after) for _, reward, after in parts)  # HERE
    loss = sum(F.mse_loss(value(x).squeeze(-1), target) for (x, _, _), target in zip(parts, targets))
"""
    + TRAIN
)


def test_targets_that_a_generator_computes_too_late_are_told_at_the_generator_alone(tmp_path: Path) -> None:
    assert_first_alarm(BOOTSTRAPPED, "gradient_into_target", tmp_path)
    assert len(alarms(BOOTSTRAPPED, tmp_path)) == 1
