"""Two axes that are flattened in one order for some values and in the other for those that meet them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SETUP = """
policy = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(policy.parameters(), 1e-3)
for step in range(3):
    states = [torch.randn(4, 6) for _ in range(16)]
    acts = [state[:, :3].argmax(1) for state in states]
    gains = torch.stack([state[:, 0] for state in states])
    returns = gains.flip(0).cumsum(0).flip(0)
"""
SCORED = """
    logp = F.log_softmax(policy(flat), -1).gather(1, acted[:, None])[:, 0]
    loss = -(logp * weights).mean()
"""
IMAGE = """
field = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(field.parameters(), 1e-3)
rows, columns = torch.linspace(-1, 1, 12), torch.linspace(-1, 1, 20)
image = torch.rand(12, 20)
places = torch.stack(torch.meshgrid(columns, rows, indexing="ij"), -1).reshape(-1, 2)  # HERE
for step in range(3):
    loss = F.mse_loss(field(places)[:, 0], image.flatten())
"""
FAULTY = (
    "    flat, acted = torch.stack(states).reshape(64, 6), torch.stack(acts).reshape(-1)\n"
    f"    weights = (returns - returns.mean()).transpose(0, 1).reshape(-1)  # HERE{SCORED}",
    "    acted = torch.stack(acts, 1).flatten()\n    weights = (returns - returns.mean()).flatten()\n"
    f"    flat = torch.stack(states, 1).flatten(0, 1)  # HERE{SCORED}",
    "    flat = torch.stack(states).permute(1, 0, 2).reshape(-1, 6)  # HERE\n"
    "    values = policy(flat)[:, 0]\n    loss = F.smooth_l1_loss(values, returns.view(-1))\n",
)
HEALTHY = (
    "    flat, acted = torch.stack(states).reshape(64, 6), torch.stack(acts).reshape(-1)\n"
    f"    weights = (returns - returns.mean()).reshape(-1){SCORED}",
    "    flat, acted = torch.stack(states, 1).flatten(0, 1), torch.stack(acts, 1).flatten()\n"
    f"    weights = (returns - returns.mean()).t().flatten(){SCORED}",
    # All pairs of two sets.
    "    pairs = (states[0][:, None] + states[1][None, :3]).reshape(12, 6)\n"
    "    near = (states[1][:3] @ states[0].T).T.reshape(12)\n"
    "    loss = F.mse_loss(policy(pairs)[:, 0], near)\n",
)
BATCHES = """
import numpy as np
def by_sequence(x):
    return x.transpose(0, 1).reshape(-1, *x.shape[2:])
policy = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(policy.parameters(), 1e-3)
class Batch:
    def __init__(self):
        self.states = torch.stack([torch.randn(4, 6) for _ in range(16)])
        self.gains = self.states[:, :, 0].flip(0).cumsum(0).flip(0)
    def flat(self):
        states, acts = by_sequence(self.states), by_sequence(self.states[..., :3].argmax(2))
        gains = self.gains.reshape(-1)  # HERE
        return {"states": states, "acts": acts, "gains": gains}
def parts():
    for _ in range(4):
        data = Batch().flat()
        INDICES
for one in parts():
    logp = F.log_softmax(policy(one["states"]), -1).gather(1, one["acts"][:, None])[:, 0]
    loss = -(logp * (one["gains"] - one["gains"].mean())).mean()
"""
INDICES = (
    "for index in torch.randperm(64).split(16):\n            yield {name: x[index] for name, x in data.items()}",
    "order = np.random.permutation(64)\n        for first in (0, 16, 32):\n"
    "            index = order[first : first + 16]\n            yield {name: x[index] for name, x in data.items()}",
    "for index in np.random.permutation(64).reshape(4, 16).tolist():\n"
    "            yield {name: x[index] for name, x in data.items()}",
    "for first in (0, 16, 32):\n            yield {name: x[first : first + 16] for name, x in data.items()}",
    "for each in zip(*(x.split(16) for x in data.values())):\n            yield dict(zip(data, each))",
)
MATRIX = """
import numpy as np
users, items = nn.Parameter(torch.randn(6, 4)), nn.Parameter(torch.randn(9, 4))
optimizer = torch.optim.Adam([users, items], 1e-2)
by_item = torch.randn(6, 9).t().reshape(-1)
def error(a, b):
    scores = (users @ items.t()).reshape(-1)
    mine, theirs = a * 9 + b, b * 6 + a
    return F.mse_loss(scores[mine], by_item[theirs])
for step in range(4):
    loss = error(np.random.randint(0, 6, 20), np.random.randint(0, 9, 20))
"""


@pytest.mark.parametrize("training", FAULTY)
def test_axes_that_are_flattened_in_two_orders_are_told(training: str, tmp_path: Path) -> None:
    assert_first_alarm(f"{HEAD}{SETUP}{training}{TRAIN}", "flattened_otherwise", tmp_path)


@pytest.mark.parametrize("training", HEALTHY)
def test_axes_that_are_flattened_alike_are_left_alone(training: str, tmp_path: Path) -> None:
    found = alarms(f"{HEAD}{SETUP}{training}{TRAIN}", tmp_path)
    assert "flattened_otherwise" not in {each.cause for each in found}


def test_places_of_pixels_in_another_order_are_told(tmp_path: Path) -> None:
    assert_first_alarm(f"{HEAD}{IMAGE}{TRAIN}", "flattened_otherwise", tmp_path)
    right = IMAGE.replace("meshgrid(columns, rows", "meshgrid(rows, columns")
    assert not alarms(f"{HEAD}{right}{TRAIN}", tmp_path)


@pytest.mark.parametrize("indices", INDICES)
def test_rows_of_a_batch_that_was_flattened_in_two_orders_are_told(indices: str, tmp_path: Path) -> None:
    script = f"{HEAD}{BATCHES}{TRAIN}".replace("INDICES", indices)
    assert_first_alarm(script, "flattened_otherwise", tmp_path)
    for right in ("by_sequence(self.gains)", "self.gains.t().contiguous().flatten()"):
        mended = script.replace("self.gains.reshape(-1)  # HERE", right)
        assert "flattened_otherwise" not in {each.cause for each in alarms(mended, tmp_path)}


def test_values_that_were_filled_in_the_other_order_are_left_alone(tmp_path: Path) -> None:
    filled = "torch.stack([self.gains[:, each] for each in range(4)]).reshape(-1)"
    script = f"{HEAD}{BATCHES}{TRAIN}".replace("INDICES", INDICES[0]).replace("self.gains.reshape(-1)  # HERE", filled)
    assert not alarms(script, tmp_path)


def test_rows_that_two_indices_take_of_two_orders_are_left_alone(tmp_path: Path) -> None:
    assert not alarms(f"{HEAD}{MATRIX}{TRAIN}", tmp_path)
