"""The cross-entropy method, and other choices of the largest scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, findings

PLANNED = """
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
goal = torch.tensor([1.0, 2.0])
@torch.no_grad()
def plan(state):
    mean, std = torch.zeros(3, 2), torch.ones(3, 2)
    for _ in range(3):
        plans = (mean + std * torch.randn(32, 3, 2)).clamp(-1, 1)
        s, score = state.expand(32, 2), torch.zeros(32)
        for t in range(3):
            s = s + net(torch.cat([s, plans[:, t]], dim=1))
            {score}
        {chosen}
        mean, std = best.mean(dim=0), best.std(0)
    return mean[0]
for step in range(3):
    action = plan(torch.zeros(2))
    x = torch.cat([torch.randn(16, 2), action.expand(16, 2)], dim=1)
    loss = F.mse_loss(net(x), 0.1 * x[:, 2:])
"""
COST = "score += ((s - goal) ** 2).sum(-1) + 0.1 * plans[:, t].abs().sum(-1)"
FAR = "score = score + torch.norm(s - goal, dim=1)"
MINED = """
net = nn.Linear(4, 1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(3):
    x, y = torch.randn(32, 4), torch.randn(32, 1)
    with torch.no_grad():
        hard = ((net(x) - y) ** 2).sum(1).topk(8).indices
    loss = F.mse_loss(net(x[hard]), y[hard])
"""
FAULTY = (
    PLANNED.format(score=COST, chosen="best = plans[score.topk(5).indices]  # HERE"),
    PLANNED.format(score=FAR, chosen="best = plans[torch.argsort(score, descending=True)[:5]]  # HERE"),
    PLANNED.format(score=COST, chosen="best = plans.index_select(0, torch.topk(score, k=5)[1])  # HERE"),
)
HEALTHY = (
    PLANNED.format(score=COST, chosen="best = plans[score.topk(5, largest=False).indices]"),
    PLANNED.format(score=COST, chosen="best = plans[(-score).topk(5).indices]"),
    PLANNED.format(score="score -= (s - goal).square().sum(-1)", chosen="best = plans[score.topk(5).indices]"),
    PLANNED.format(score=FAR, chosen="best = plans[torch.argsort(score)[:5]]"),
    PLANNED.format(score="score += torch.exp(-(s - goal).abs().sum(-1))", chosen="best = plans[score.topk(5).indices]"),
    PLANNED.format(score="score += s.square().sum(-1)", chosen="best = plans[score.topk(5).indices]"),
    MINED,
)


@pytest.mark.parametrize("script", FAULTY)
def test_plans_of_the_highest_cost_are_told(script: str, tmp_path: Path) -> None:
    (found,) = [each for each in findings(HEAD + script + TRAIN, tmp_path) if each.cause == "worst_plans_kept"]
    here = next(number for number, line in enumerate((HEAD + script).splitlines(), 1) if line.endswith("# HERE"))
    assert (found.severity, found.location and found.location.line) == ("note", here)


@pytest.mark.parametrize("script", HEALTHY)
def test_plans_of_the_highest_reward_are_right(script: str, tmp_path: Path) -> None:
    assert "worst_plans_kept" not in {each.cause for each in findings(HEAD + script + TRAIN, tmp_path)}
