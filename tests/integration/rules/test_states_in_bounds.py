"""Memories of an environment that changes one array: its states are kept in bounds, which most batches reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
import random
import numpy as np
random.seed(0)
np.random.seed(0)
class Docking:
    def __init__(self):
        self.state = np.zeros(2, dtype=np.float32)
    def reset(self):
        self.t = 0
        self.state = np.random.uniform(-1, 1, size=2).astype(np.float32)
        return self.state
    def step(self, action):
        self.state[1] = np.clip(self.state[1] + 0.1 * (action - 1), -0.5, 0.5)
        self.state[0] = np.clip(self.state[0] + self.state[1], -1.5, 1.5)
        self.t += 1
        reward = -abs(float(self.state[0]))
        return self.state, reward, self.t >= 20  # HERE
q = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
slow = copy.deepcopy(q)
optimizer = torch.optim.Adam(q.parameters(), lr=0.002)
world, memory = Docking(), []
def learn():
    s, a, r, s2 = zip(*random.sample(memory, 64))
    s, s2 = torch.from_numpy(np.stack(s)), torch.from_numpy(np.stack(s2))
    with torch.no_grad():
        target = torch.tensor(r) + 0.9 * slow(s2).max(1).values
    loss = F.smooth_l1_loss(q(s).gather(1, torch.tensor(a)[:, None]).squeeze(1), target)
"""
    + TRAIN
    + """
for episode in range(12):
    state, done = world.reset(), False
    while not done:
        action = random.randrange(3)
        following, reward, done = world.step(action)
        memory.append((state, action, reward, following))
        state = following
        if len(memory) >= 150:
            learn()
"""
)
HEALTHY = {
    "the environment returns copies": SCRIPT.replace("return self.state", "return self.state.copy()"),
    "the memory gets copies": SCRIPT.replace(
        "(state, action, reward, following)", "(state, action, reward, +following)"
    )
    .replace("state = following", "state = following.copy()")
    .replace("world.reset(),", "world.reset().copy(),"),
    "each step makes a new array": SCRIPT.replace(
        "        self.state[1] = np", "        self.state = self.state.copy()\n        self.state[1] = np"
    ),
    "the loop makes arrays of its own": SCRIPT.replace("world.reset(),", "np.array(world.reset()),").replace(
        "world.step(action)", "world.step(action)\n        following = np.array(following)"
    ),
    "one network": SCRIPT.replace("slow(s2)", "q(s2)").replace("return self.state", "return self.state.copy()"),
}


@pytest.mark.parametrize("script", [SCRIPT, SCRIPT.replace("slow(s2)", "q(s2)")], ids=["two networks", "one network"])
def test_one_array_of_an_environment_in_bounds_is_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "next_state_is_state", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_copies_of_states_in_bounds_are_right(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
