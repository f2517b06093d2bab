"""Environments, in a file of their own, that hand out an array which they change in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

ENVIRONMENT = """
import numpy as np
class Cart:
    def __init__(self):
        self.rng = np.random.default_rng(0)
    def reset(self):
        self.state = self.rng.uniform(-1.5, 1.5, size=2).astype(np.float32)
        return self.state
    def step(self, action):
        self.state[1] += 0.2 * (action - 1)
        self.state[0] += 0.2 * self.state[1]
        return self.state, -float((self.state**2).sum())
"""
TRAINING = f"""{HEAD}
from {{module}} import Cart
env, policy = Cart(), nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
@torch.no_grad()
def episode():
    states, actions, rewards, state = [], [], [], env.reset()
    for _ in range(8):
        state = torch.as_tensor(state)  # HERE
        action = int(torch.distributions.Categorical(logits=policy(state)).sample())
        states.append(state)
        actions.append(action)
        state, reward = env.step(action)
        rewards.append(reward)
    return torch.stack(states), torch.tensor(actions), torch.tensor(rewards).flip(0).cumsum(0).flip(0)
for step in range(8):
    states, actions, gains = (torch.stack(each) for each in zip(*[episode() for _ in range(4)]))
    logp = torch.distributions.Categorical(logits=policy(states)).log_prob(actions)
    loss = -(logp * (gains - gains.mean(0))).mean()
{TRAIN}"""
COPIES = (
    ("torch.as_tensor(state)", "torch.tensor(state)"),
    ("states.append(state)", "states.append(state.clone())"),
    ("torch.as_tensor(state)", "torch.as_tensor(state.copy())"),
)


def _script(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, environment: str = ENVIRONMENT) -> str:
    (folder / f"{module}.py").write_text(environment)
    monkeypatch.syspath_prepend(str(folder))
    return TRAINING.replace("{module}", module)


def test_episodes_that_hold_one_array_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = _script(tmp_path, monkeypatch, "cart_handed_out")
    assert_first_alarm(script, "batch_of_equal_rows", tmp_path)


@pytest.mark.parametrize(("old", "new"), COPIES)
def test_episodes_of_copies_are_left_alone(old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = _script(tmp_path, monkeypatch, f"cart_copied_{COPIES.index((old, new))}")
    assert "batch_of_equal_rows" not in {each.cause for each in alarms(script.replace(old, new), tmp_path)}


def test_environments_that_make_a_new_array_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed = ENVIRONMENT.replace(
        "        self.state[1] +=", "        self.state = self.state.copy()\n        self.state[1] +="
    )
    script = _script(tmp_path, monkeypatch, "cart_renewed", renewed)
    assert "batch_of_equal_rows" not in {each.cause for each in alarms(script, tmp_path)}


RECORDED = f"""{HEAD}
from {{module}} import Cart
env, states, after = Cart(), [], []
for _ in range(4):
    state = env.reset()
    for _ in range(10):
        states.append(torch.from_numpy(state))
        state, _ = env.step(2)
        after.append(torch.from_numpy(state))
states, after = torch.stack(states), torch.stack(after)
model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(8):
    rows = torch.randint(0, len(states), (16,))
    loss = F.mse_loss(model(states[rows]), after[rows] - states[rows])
{TRAIN}"""


def test_transitions_that_are_stored_before_a_training_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _script(tmp_path, monkeypatch, "cart_recorded")
    script = RECORDED.replace("{module}", "cart_recorded")
    told = [each for each in alarms(script, tmp_path) if each.cause == "batch_of_equal_rows"]
    assert told
    assert "samples that have the memory of 4 arrays" in told[0].message
    copied = script.replace("from_numpy(state)", "from_numpy(state.copy())")
    assert "batch_of_equal_rows" not in {each.cause for each in alarms(copied, tmp_path)}


def test_one_frame_that_is_stacked_on_purpose_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _script(tmp_path, monkeypatch, "cart_stacked")
    stacked = RECORDED.replace("{module}", "cart_stacked").replace("from_numpy(state)", "tensor(state)")
    frames = "frames = torch.stack([torch.from_numpy(env.reset()) for _ in range(10)])\n"
    stacked = stacked.replace("model = ", frames + "model = ", 1).replace(
        "model(states[rows])", "model(states[rows] - frames[:1])"
    )
    assert "batch_of_equal_rows" not in {each.cause for each in alarms(stacked, tmp_path)}


FLEET = (
    HEAD
    + """
import numpy as np
class Carts:
    def __init__(self):
        self.rng, self.state = np.random.default_rng(0), np.zeros((6, 2), dtype=np.float32)
    def reset(self):
        self.state[:, 0] = self.rng.uniform(-2, 2, 6)
        self.state[:, 1] = 0.0
        return self.state
    def step(self, force):
        self.state[:, 1] += 0.2 * np.clip(force, -2, 2)
        self.state[:, 0] += 0.2 * self.state[:, 1]
        return RETURNED, -(self.state[:, 0] ** 2)
carts, policy = Carts(), nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
@torch.no_grad()
def collect():
    states, actions, rewards, state = [], [], [], torch.from_numpy(carts.reset())
    for _ in range(8):
        action = torch.distributions.Normal(policy(state).squeeze(-1), 1.0).sample()
        after, reward = carts.step(action.numpy())
        states.append(state)
        actions.append(action)
        rewards.append(torch.from_numpy(reward))
        state = torch.from_numpy(after)
    return torch.stack(states), torch.stack(actions), torch.stack(rewards).flip(0).cumsum(0).flip(0)
for step in range(8):
    states, actions, gains = collect()
    logp = torch.distributions.Normal(policy(states).squeeze(-1), 1.0).log_prob(actions)
    loss = -(logp * (gains - gains.mean())).mean()
"""
    + TRAIN
)


def test_rows_of_one_array_are_told_once_where_the_environment_returns_it(tmp_path: Path) -> None:
    script = FLEET.replace(
        "return RETURNED, -(self.state[:, 0] ** 2)", "return self.state, -(self.state[:, 0] ** 2)  # HERE"
    )
    assert_first_alarm(script, "batch_of_equal_rows", tmp_path)
    assert len(alarms(script, tmp_path)) == 1
