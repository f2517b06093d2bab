"""The entropy for which the temperature of a policy is trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
from torch.distributions import Normal
actor, critic = nn.Linear(3, 4), nn.Linear(5, 1).requires_grad_(False)
optimizer = torch.optim.Adam(actor.parameters(), lr=0.003)
def act(s):
    mean, log_std = actor(s).chunk(2, dim=-1)
    normal = Normal(mean, log_std.clamp(-5, 2).exp())
    u = normal.rsample()
    a = torch.tanh(u)
    return a, (normal.log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)).sum(-1)
def improve(alpha):
    s = torch.randn(32, 3)
    a, logp = act(s)
    loss = (alpha * logp - critic(torch.cat([s, a], -1)).squeeze(-1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return logp
"""
)
LOOP = """
for step in range(5):
    logp = improve(log_alpha.exp().detach())
    loss = -(log_alpha.exp() * (logp + target_entropy).detach()).mean()
    alpha_optimizer.zero_grad()
    loss.backward()
    alpha_optimizer.step()
"""
FAULTY = {
    "a variable": """
log_alpha = torch.zeros(1, requires_grad=True)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=0.01)
target_entropy = float(2)  # HERE
"""
    + LOOP,
    "minus twice": """
log_alpha = nn.Parameter(torch.tensor(0.0))
alpha_optimizer = torch.optim.Adam([log_alpha], lr=0.01)
wanted = -2  # HERE
for step in range(5):
    improve(log_alpha.exp().item())
    with torch.no_grad():
        _, logp = act(torch.randn(32, 3))
    gap = -logp.mean() + wanted
    loss = log_alpha * gap
    alpha_optimizer.zero_grad()
    loss.backward()
    alpha_optimizer.step()
""",
}
HEALTHY = {
    "minus the number of actions": """
log_alpha = torch.zeros(1, requires_grad=True)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=0.01)
target_entropy = -2.0
"""
    + LOOP,
    "half of that": """
log_alpha = torch.zeros(1, requires_grad=True)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=0.01)
target_entropy = -torch.prod(torch.tensor((2,))).item() / 2
"""
    + LOOP,
    "actions of another range": """
low, high = -50.0, 50.0
def act(s):
    mean, log_std = actor(s).chunk(2, dim=-1)
    normal = Normal(mean, log_std.clamp(-5, 2).exp())
    u = normal.rsample()
    a = low + 0.5 * (torch.tanh(u) + 1) * (high - low)
    logp = normal.log_prob(u) - torch.log(1 - torch.tanh(u) ** 2 + 1e-6) - math.log(0.5 * (high - low))
    return a / high, logp.sum(-1)
log_alpha = torch.zeros(1, requires_grad=True)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=0.01)
target_entropy = 4.0
"""
    + LOOP,
    "a target that can be met": """
log_alpha = torch.zeros(1, requires_grad=True)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=0.01)
target_entropy = 0.5
"""
    + LOOP,
    "actions that nothing bounds": """
def act(s):
    mean, log_std = actor(s).chunk(2, dim=-1)
    normal = Normal(mean, log_std.clamp(-5, 2).exp())
    a = normal.rsample()
    return a, normal.log_prob(a).sum(-1)
log_alpha = torch.zeros(1, requires_grad=True)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=0.01)
target_entropy = 2.0
"""
    + LOOP,
    "actions of a larger range": """
def act(s):
    mean, log_std = actor(s).chunk(2, dim=-1)
    normal = Normal(mean, log_std.clamp(-5, 2).exp())
    u = normal.rsample()
    a = torch.tanh(u)
    return 5 * a, (normal.log_prob(u) - torch.log(5 * (1 - a.pow(2)) + 1e-6)).sum(-1)
log_alpha = torch.zeros(1, requires_grad=True)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=0.01)
target_entropy = 2.0
"""
    + LOOP,
}


@pytest.mark.parametrize("name", FAULTY)
def test_entropies_that_cannot_be_reached_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name], "unreachable_entropy", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_entropies_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name], tmp_path)
