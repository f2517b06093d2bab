"""Tensors of one NumPy array that is changed in place before backward uses their values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm, in_files

EPISODES = f"""{HEAD}
import numpy as np
class Cart:
    def __init__(self):
        self.rng, self.state = np.random.default_rng(0), np.zeros(3, dtype=np.float32)
    def reset(self):
        self.state[:] = self.rng.uniform(-1.5, 1.5, size=3)
        return self.state
    def step(self, action):
        self.state[1] += 0.2 * (action - 1)
        self.state[0] += 0.2 * self.state[1]
        return self.state, -float((self.state**2).sum())
env, policy = Cart(), nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
for episode in range(6):
    terms, rewards, state = [], [], env.reset()
    for _ in range(8):
        x = torch.from_numpy(state)  # HERE
        choice = torch.distributions.Categorical(logits=policy(x.unsqueeze(0)))
        action = choice.sample()
        terms.append(choice.log_prob(action))
        state, reward = env.step(action.item())
        rewards.append(reward)
    gains = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    loss = -(torch.cat(terms) * (gains - gains.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
VALUES = f"""{HEAD}
import numpy as np
rng, state = np.random.default_rng(0), np.zeros((4, 3), dtype=np.float32)
value = nn.Linear(3, 1)
optimizer = torch.optim.SGD(value.parameters(), 1e-2)
def move():
    state[:] = 0.9 * state + 0.3 * rng.normal(size=state.shape)
    return state, torch.tensor(rng.normal(size=(4, 1)), dtype=torch.float32)
for step in range(8):
    now = torch.as_tensor(move()[0])  # HERE
    here = value(now)
    following, reward = move()
    with torch.no_grad():
        there = value(torch.as_tensor(following))
    loss = F.mse_loss(here, reward + 0.9 * there)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FITTED = f"""{HEAD}
import numpy as np
rng, buffer = np.random.default_rng(0), np.zeros((8, 3), dtype=np.float32)
model, kept = nn.Linear(3, 1), []
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for step in range(8):
    buffer[:] = rng.normal(size=buffer.shape)
    x = torch.from_numpy(buffer)
    kept.append(x)
    loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
GROWING = f"""{HEAD}
import numpy as np
rng, history = np.random.default_rng(0), np.zeros((8, 3), dtype=np.float32)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for step in range(6):
    terms = []
    for end in range(1, 9):
        history[end - 1] = rng.normal(size=3)
        terms.append((model(torch.from_numpy(history[:end])).mean() - float(history[end - 1, 0])) ** 2)
    optimizer.zero_grad()
    torch.stack(terms).mean().backward()
    optimizer.step()
"""
MENDED = (
    (EPISODES, "torch.from_numpy(state)", "torch.tensor(state)"),
    (EPISODES, "torch.from_numpy(state)", "torch.from_numpy(state.copy())"),
    (EPISODES, "torch.from_numpy(state)", "torch.from_numpy(state).clone()"),
    (EPISODES, "return self.state", "return self.state.copy()"),
    (EPISODES, "torch.from_numpy(state)", "torch.from_numpy(state) * 0.5"),
    (VALUES, "torch.as_tensor(move()[0])", "torch.as_tensor(move()[0]).clone()"),
    (VALUES, "return state,", "return state.copy(),"),
    (FITTED, "", ""),
    (GROWING, "", ""),
)


@pytest.mark.parametrize("script", [EPISODES, VALUES])
def test_an_array_changed_before_backward_is_told_where_it_is_wrapped(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "data_access", tmp_path)


def test_the_line_that_hands_out_the_array_is_named(tmp_path: Path) -> None:
    found = next(each for each in alarms(EPISODES, tmp_path) if each.cause == "data_access")
    assert "returns its own array" in found.why
    assert found.evidence["backward_calls"] == 6


@pytest.mark.parametrize(("script", "old", "new"), MENDED)
def test_copies_and_arrays_changed_after_backward_are_left_alone(
    script: str, old: str, new: str, tmp_path: Path
) -> None:
    assert "data_access" not in {each.cause for each in alarms(script.replace(old, new), tmp_path)}


ENVIRONMENT = """
import numpy as np
class Masses:
    def __init__(self):
        self.rng, self.state = np.random.default_rng(0), np.zeros((8, 2), dtype=np.float32)
    @property
    def place(self):
        return self.state[:, 0]
    @property
    def speed(self):
        return self.state[:, 1]
    def reset(self):
        self.place[:] = self.rng.uniform(-1.5, 1.5, size=8)
        return self.state
    def step(self, push):
        self.speed[:] = 0.8 * self.speed + 0.2 * push
        self.place[:] += 0.2 * self.speed
        return self.state, -np.abs(self.place).astype(np.float32)
"""
NETWORK = """
import torch
from torch import nn
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.end = nn.Linear(2, 16), nn.Linear(16, 1)
    def forward(self, x):
        mean = self.end(torch.tanh(self.body(x)))[:, 0]
        return torch.distributions.Normal(mean, 0.5)
"""
AGENT = """
import torch
class Agent:
    def __init__(self, policy):
        self.policy, self.optimizer = policy, torch.optim.Adam(policy.parameters(), 1e-2)
    def play(self, env):
        terms, rewards, state = [], [], env.reset()
        for _ in range(6):
            last = torch.from_numpy(state[:0])
            WRAPS
            action = policy.sample()
            terms.append(policy.log_prob(action))
            state, reward = env.step(action.numpy())
            rewards.append(torch.from_numpy(reward))
        return torch.stack(terms), torch.stack(rewards)
    def update(self, env):
        terms, rewards = self.play(env)
        gains = rewards.flip(0).cumsum(0).flip(0)
        loss = -(terms * (gains - gains.mean(1, keepdim=True))).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
PLAYED = """
from own_agent import Agent
from own_environment import Masses
from own_network import Policy
agent, env = Agent(Policy()), Masses()
for episode in range(6):
    agent.update(env)
"""
WRAPS = {
    "an argument of the call": "policy = self.policy(torch.from_numpy(state))  # HERE",
    "a variable that the call takes": "x = torch.as_tensor(state)  # HERE\n            policy = self.policy(x)",
}


def files_of_agent(wraps: str) -> dict[str, str]:
    return {"own_environment": ENVIRONMENT, "own_network": NETWORK, "own_agent": AGENT.replace("WRAPS", wraps)}


@pytest.mark.parametrize("name", WRAPS)
def test_the_line_that_gave_the_array_to_a_network_in_another_file_is_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_of_agent(WRAPS[name])
    found = next(
        each
        for each in alarms(HEAD + in_files(files, tmp_path, monkeypatch) + PLAYED, tmp_path)
        if each.cause == "data_access"
    )
    assert found.location is not None
    assert found.symptom_location is not None
    assert Path(found.location.file).read_text().splitlines()[found.location.line - 1].endswith("# HERE")
    assert Path(found.symptom_location.file).name == "own_network.py"
    assert "in own_network.py:9 saved" in found.message
    assert "own_environment.py:18 returns its own array, which line 17 changes in place" in found.why


@pytest.mark.parametrize("copies", ["torch.tensor(state)", "torch.from_numpy(state.copy())"])
def test_a_copy_for_a_network_in_another_file_is_left_alone(
    copies: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_of_agent(f"policy = self.policy({copies})")
    script = HEAD + in_files(files, tmp_path, monkeypatch) + PLAYED
    assert "data_access" not in {each.cause for each in alarms(script, tmp_path)}
