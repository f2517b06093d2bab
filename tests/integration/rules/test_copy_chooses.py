"""Double Q-learning: which of the two networks chooses the action, and which tells its value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

AGENT = (
    HEAD
    + """
q = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
copied = copy.deepcopy(q)
for p in copied.parameters():
    p.requires_grad_(False)
other = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam([*q.parameters(), *other.parameters()], lr=0.01)
rows = torch.arange(8)
for step in range(6):
    states, following, rewards = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
    actions, done = torch.randint(0, 3, (8,)), (torch.rand(8) < 0.3).float()
    TARGET
    value = q(states).gather(1, actions[:, None]).squeeze(1)
    loss = F.smooth_l1_loss(value, target) + 0.1 * other(states).square().mean()
"""
    + TRAIN
    + """
    with torch.no_grad():
        for own, p in zip(copied.parameters(), q.parameters()):
            own.mul_(0.9).add_(0.1 * p)
"""
)
SWAPPED = [
    """with torch.no_grad():
        best = copied(following).argmax(1, keepdim=True)  # HERE
        target = rewards + 0.99 * (1 - done) * q(following).gather(1, best).squeeze(1)""",
    """best = copied(following).max(dim=-1)[1]  # HERE
    target = rewards + 0.99 * (1 - done) * q(following)[rows, best].detach()""",
    """with torch.no_grad():
        best = torch.argmax(copied(following), dim=1)  # HERE
        later = torch.take_along_dim(q(following), best.unsqueeze(1), dim=1)[:, 0]
        target = rewards + (0.99 * later).masked_fill(done.bool(), 0.0)""",
]
RIGHT = [
    """with torch.no_grad():
        best = q(following).argmax(1, keepdim=True)
        target = rewards + 0.99 * (1 - done) * copied(following).gather(1, best).squeeze(1)""",
    """with torch.no_grad():
        target = rewards + 0.99 * (1 - done) * copied(following).max(1).values""",
    # the actions of a policy that is to be judged, which is another network
    """with torch.no_grad():
        if step == 0:
            policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
        best = policy(following).argmax(1, keepdim=True)
        target = rewards + 0.99 * (1 - done) * q(following).gather(1, best).squeeze(1)""",
    # or an older state of the values
    """with torch.no_grad():
        if step % 3 == 0:
            policy = copy.deepcopy(q)
        best = policy(following).argmax(1, keepdim=True)
        target = rewards + 0.99 * (1 - done) * q(following).gather(1, best).squeeze(1)""",
    # or one that was deployed once
    """with torch.no_grad():
        if step == 0:
            deployed = copy.deepcopy(q)
        best = deployed(following).argmax(1, keepdim=True)
        target = rewards + 0.99 * (1 - done) * q(following).gather(1, best).squeeze(1)""",
    # two trained networks
    """with torch.no_grad():
        best = other(following).argmax(1, keepdim=True)
        target = rewards + 0.99 * (1 - done) * q(following).gather(1, best).squeeze(1)""",
    # the copy does both
    """with torch.no_grad():
        values = copied(following)
        target = rewards + 0.99 * (1 - done) * values.gather(1, values.argmax(1, keepdim=True)).squeeze(1)""",
]


@pytest.mark.parametrize("target", SWAPPED)
def test_actions_that_the_copy_chooses_for_the_trained_network_are_told(target: str, tmp_path: Path) -> None:
    assert_first_alarm(AGENT.replace("TARGET", target), "copy_chooses", tmp_path)


@pytest.mark.parametrize("target", RIGHT)
def test_actions_that_the_trained_network_or_a_policy_chooses_are_right(target: str, tmp_path: Path) -> None:
    # Another rule tells that the copy is not used.
    assert "copy_chooses" not in {each.cause for each in alarms(AGENT.replace("TARGET", target), tmp_path)}
