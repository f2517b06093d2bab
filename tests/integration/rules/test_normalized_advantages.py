"""Targets of a critic that are made of advantages which were normalized before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

CRITIC = """
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
for step in range(3):
    states, rewards = torch.randn(6, 4, 4), 5 + torch.randn(6, 4)
    with torch.no_grad():
        values = critic(states).squeeze(-1)
    advantages, running = torch.zeros(6, 4), torch.zeros(4)
    for t in reversed(range(6)):
        running = rewards[t] + 0.9 * values[min(t + 1, 5)] - values[t] + 0.8 * running
        advantages[t] = running
    {returns}
    rows = torch.randperm(24)[:16]
    loss = F.mse_loss(critic(states).flatten()[rows], returns.flatten()[rows])
"""
NORMALIZED = "advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)"
WRONG = (
    f"{NORMALIZED}\n    returns = advantages + values  # HERE",
    f"{NORMALIZED}\n    returns = values + advantages.clamp(-3, 3)  # HERE",
    "spread, mean = torch.std_mean(advantages)\n    returns = torch.add((advantages - mean) / spread, values)  # HERE",
    "centred = advantages - advantages.mean()\n"
    "    returns = centred.div(centred.pow(2).mean().sqrt() + 1e-6).add(values)  # HERE",
    "advantages = (advantages - advantages.mean()) * torch.rsqrt(advantages.var() + 1e-8)\n"
    "    returns = advantages + values  # HERE",
    "scale = 1 / (advantages.std() + 1e-8)\n    returns = values + scale * (advantages - advantages.mean())  # HERE",
)
RIGHT = (
    f"returns = advantages + values\n    {NORMALIZED}",
    "returns = (rewards - rewards.mean()) / rewards.std() + values",
    "spread, mean = torch.std_mean(advantages)\n    scaled = (advantages - mean) / spread\n"
    "    returns = scaled * spread + mean + values",
    "returns = advantages + values\n    advantages = (advantages - advantages.mean()) * torch.rsqrt(advantages.var())",
    "returns = (advantages - advantages.mean()) * advantages.var().clamp(0.5, 2) + values",
    f"returns = rewards.flip(0).cumsum(0).flip(0)\n    {NORMALIZED}\n    print((advantages + values).mean())",
)


@pytest.mark.parametrize("returns", WRONG)
def test_a_target_of_normalized_advantages_is_told(returns: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + CRITIC.format(returns=returns) + TRAIN, "target_of_normalized", tmp_path)


@pytest.mark.parametrize("returns", RIGHT)
def test_returns_of_whole_advantages_are_right(returns: str, tmp_path: Path) -> None:
    found = alarms(HEAD + CRITIC.format(returns=returns) + TRAIN, tmp_path)
    assert "target_of_normalized" not in {each.cause for each in found}
