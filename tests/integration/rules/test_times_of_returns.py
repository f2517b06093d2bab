"""Recurrent actors and critics: along which axis they go, and along which one the returns are added up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
layer = nn.LAYER  # HERE
encode, actor, critic = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(8, 1)
parts = nn.ModuleList([encode, layer, actor, critic])
optimizer = torch.optim.Adam(parts.parameters(), lr=0.01)

def discounted(rewards):
    RETURNS
    return out

for update in range(5):
    states, actions, rewards = torch.randn(7, 12, 4), torch.randint(0, 3, (7, 12)), torch.randn(7, 12)
    h = torch.relu(encode(states))
    out, _ = CALL
    policy, values = torch.distributions.Categorical(logits=actor(out)), critic(out).squeeze(-1)
    returns = discounted(rewards)
    gained = (returns - values).detach()
    loss = -(policy.log_prob(actions) * gained).mean() + F.mse_loss(values, returns)
"""
    + TRAIN
)
ASSIGNED = """out, total = torch.zeros_like(rewards), torch.zeros(12)
    for t in reversed(range(7)):
        total = rewards[t] + 0.9 * total
        out[t] = total"""
STACKED = """out, total = [], torch.zeros(12)
    for reward in reversed(rewards.unbind(0)):
        total = reward + total * 0.9
        out.append(total)
    out = torch.stack(out[::-1])"""
SECOND = """out, total = torch.zeros_like(rewards), torch.zeros(7)
    for t in reversed(range(12)):
        total = rewards[:, t] + 0.9 * total
        out[:, t] = total"""


def of(layer: str, returns: str, call: str = "layer(h)") -> str:
    return SCRIPT.replace("LAYER", layer).replace("RETURNS", returns).replace("CALL", call)


@pytest.mark.parametrize(
    "script",
    [
        of("GRU(8, 8, batch_first=True)", ASSIGNED),
        of("LSTM(8, 8, batch_first=True)", STACKED),
        of("LSTM(8, 8)", SECOND),
    ],
    ids=["assigned", "stacked", "along the second axis"],
)
def test_a_layer_along_the_samples_of_the_returns_is_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "sequence_over_batch", tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        of("GRU(8, 8)", ASSIGNED),
        of("LSTM(8, 8)", STACKED),
        of("LSTM(8, 8, batch_first=True)", SECOND),
        of("GRU(8, 8, batch_first=True)", ASSIGNED, "[each.transpose(0, 1) for each in layer(h.transpose(0, 1))]"),
    ],
    ids=["assigned", "stacked", "along the second axis", "turned around and back"],
)
def test_layers_along_the_times_of_the_returns_are_right(script: str, tmp_path: Path) -> None:
    assert not alarms(script, tmp_path)


ROLLOUT = (
    HEAD
    + """
net, critic = nn.Linear(2, 3), nn.Linear(2, 1)
optimizer = torch.optim.Adam([*net.parameters(), *critic.parameters()], lr=0.01)

@torch.no_grad()
def rollout():
    level, phase, seen = torch.rand(12), torch.rand(12), []
    for _ in range(7):
        state = torch.stack([level, phase], 1)
        action = torch.distributions.Categorical(logits=net(state)).sample()
        after = (level + 0.25 * (action - 1)).clamp(0, 1)
        reward = (level - after) * (1 + phase.sin())
        seen.append((state, action, reward))
        level, phase = after, phase + 0.5
    return [torch.stack(part, dim=AXIS) for part in zip(*seen)]

def to_go(rewards):
    out, total = torch.empty_like(rewards), torch.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        total = rewards[t] + 0.9 * total  # HERE
        out[t] = total
    return out

for update in range(6):
    states, actions, rewards = rollout()
    returns = RETURNS
    values = critic(states).squeeze(-1)
    gained = (returns - values).detach()
    policy = torch.distributions.Categorical(logits=net(states))
    loss = -(policy.log_prob(actions) * gained).mean() + F.mse_loss(values, returns)
"""
    + TRAIN
)


def rolled(axis: int, returns: str) -> str:
    return ROLLOUT.replace("AXIS", str(axis)).replace("RETURNS", returns)


def test_a_loop_along_the_samples_of_a_rollout_is_told(tmp_path: Path) -> None:
    assert_first_alarm(rolled(1, "to_go(rewards)"), "sequence_over_batch", tmp_path)


@pytest.mark.parametrize(
    "script", [rolled(0, "to_go(rewards)"), rolled(1, "to_go(rewards.t()).t()")], ids=["along time", "turned around"]
)
def test_a_loop_along_the_steps_of_a_rollout_is_right(script: str, tmp_path: Path) -> None:
    assert not alarms(script, tmp_path)


def test_rows_that_were_simulated_apart_are_no_steps(tmp_path: Path) -> None:
    apart = rolled(1, "to_go(rewards)").replace("level, phase = after, phase + 0.5", "level, phase = torch.rand(2, 12)")
    assert "sequence_over_batch" not in {each.cause for each in alarms(apart, tmp_path)}
