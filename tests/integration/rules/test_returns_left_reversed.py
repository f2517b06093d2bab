"""Discounted returns that are summed up from the last step on, and what they meet: in the right order, or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
FUNCTION
body, actor, critic = nn.Linear(4, 16), nn.Linear(16, 3), nn.Linear(16, 1)
optimizer = torch.optim.Adam([*body.parameters(), *actor.parameters(), *critic.parameters()], lr=0.01)
def play():
    state, kept = torch.randn(4), ([], [], [], [])
    for t in range(8):
        h = torch.relu(body(state))
        policy = torch.distributions.Categorical(logits=actor(h))
        action = policy.sample()
        step = policy.log_prob(action), critic(h).squeeze(-1), float(action == 1) + torch.rand(()).item(), float(t == 7)
        for each, value in zip(kept, step):
            each.append(value)
        state = 0.9 * state + torch.randn(4)
    return kept
for episode in range(6):
    logps, values, rewards, dones = play()
    PAIRED
"""
    + TRAIN
)
BY_HAND = """sums, R = [], 0.0
    for r in rewards[::-1]:
        R = r + 0.9 * R
        sums.append(R)  # HERE
"""
OF_FUNCTION = """def discounted(rewards, dones):
    R, found = 0.0, []
    for r, d in zip(reversed(rewards), reversed(dones)):
        R = r + 0.9 * (1 - d) * R
        found.append(R)  # HERE
    return torch.tensor(found)
"""
LIVE = """
    gained = torch.tensor(sums) - torch.stack(values)
    loss = -(torch.stack(logps) * gained.detach()).mean() + gained.square().mean()
"""
CALLED = "sums = discounted(rewards, dones)" + LIVE.replace("torch.tensor(sums)", "sums")
ADVANTAGES = """def advantages(rewards, values):
    total, found = 0.0, []
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + 0.9 * (values[t + 1] if t + 1 < len(rewards) else 0.0) - values[t]
        total = delta + 0.9 * 0.95 * total
        found.insert(0, total)
    return torch.tensor(found)
"""
ONE_BY_ONE = """losses = []
    for logp, value, R in zip(logps, values, discounted(rewards, dones)):
        gained = R - value
        losses.append(-logp * gained.detach() + gained ** 2)
    loss = torch.stack(losses).sum()
"""


def of(function: str, paired: str) -> str:
    return SCRIPT.replace("FUNCTION", function).replace("PAIRED", paired)


BY_ROWS = """sums, old = discounted(rewards, dones), torch.stack(logps).detach()
    rows = torch.randperm(8)[:4]
    gained = (sums - torch.stack(values))[rows].detach()
    ratio = (torch.stack(logps)[rows] - old[rows]).exp()
    loss = -torch.min(ratio * gained, ratio.clamp(0.8, 1.2) * gained).mean() + F.mse_loss(torch.stack(values), sums)
"""


@pytest.mark.parametrize(
    "script",
    [
        of("", BY_HAND + LIVE),
        of(OF_FUNCTION, CALLED),
        of(ADVANTAGES + OF_FUNCTION, CALLED),
        of(OF_FUNCTION, ONE_BY_ONE),
        of(OF_FUNCTION, BY_ROWS),
    ],
    ids=["by hand", "in a function", "beside advantages in their order", "one by one", "rows of a batch"],
)
def test_returns_that_are_never_put_back_in_order_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "returns_from_before", tmp_path)


BESIDE = """sums, kept, critics, R = [], [], [], 0.0
    for t in reversed(range(8)):
        R = rewards[t] + 0.9 * R
        sums.append(R)
        kept.append(logps[t])
        critics.append(values[t])
    gained = torch.tensor(sums) - torch.stack(critics)
    loss = -(torch.stack(kept) * gained.detach()).mean() + gained.square().mean()
"""
WITH_STEPS = """pairs, losses, R = [], [], 0.0
    for t in reversed(range(8)):
        R = rewards[t] + 0.9 * R
        pairs.append((t, R))
    for t, R in pairs:
        gained = R - values[t]
        losses.append(-logps[t] * gained.detach() + gained ** 2)
    loss = torch.stack(losses).sum()
"""
LOSSES = """losses, R = [], 0.0
    for r, logp, value in zip(reversed(rewards), reversed(logps), reversed(values)):
        R = r + 0.9 * R
        losses.append(-logp * (R - value.item()) + (R - value) ** 2)
    loss = (torch.stack(losses) * torch.ones(8)).sum()
"""
POPPED = (
    BY_HAND.replace("  # HERE", "")
    + """
    losses = []
    for logp, value in zip(logps, values):
        gained = sums.pop() - value
        losses.append(-logp * gained.detach() + gained ** 2)
    loss = torch.stack(losses).sum()
"""
)
HELPER = """def backwards(given):
    return given[::-1]
def discounted(rewards, dones):
    R, found = 0.0, []
    for r in backwards(rewards):
        R = r + 0.9 * R
        found.append(R)
    return torch.tensor(backwards(found))
"""


@pytest.mark.parametrize(
    "script",
    [
        of("", BESIDE),
        of("", WITH_STEPS),
        of("", LOSSES),
        of("", POPPED),
        of(HELPER, CALLED),
        of(OF_FUNCTION, ONE_BY_ONE.replace("zip(logps, values", "zip(reversed(logps), reversed(values)")),
        of(OF_FUNCTION.replace("append(", "insert(0, "), CALLED),
    ],
    ids=["all are reversed", "with their steps", "losses", "popped", "helper", "others are reversed", "in front"],
)
def test_returns_that_meet_their_own_steps_are_right(script: str, tmp_path: Path) -> None:
    assert not alarms(script, tmp_path)
