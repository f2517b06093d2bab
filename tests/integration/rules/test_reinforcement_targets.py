"""Flags for the end of an episode that are turned round, squashed actions with the log-probability of something else,
and dropout of a model's answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm


def causes(script: str, folder: Path) -> set[str]:
    return {finding.cause for finding in alarms(script, folder)}


BOOTSTRAP = """
network, target_network = nn.Linear(4, 2), nn.Linear(4, 2)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for step in range(3):
    states, following, rewards = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
    ends = torch.zeros(8)
    ends[step] = 1.0
    {target}
    loss = F.smooth_l1_loss(network(states)[:, 0], target)
"""
TURNED = (
    "done = ends\n    with torch.no_grad():\n"
    "        target = rewards + 0.9 * done * target_network(following).max(1).values  # HERE",
    "terminated = ends.bool()\n    with torch.no_grad():\n        later = target_network(following).amax(dim=1)\n"
    "        later = later * terminated.float()  # HERE\n        target = rewards + 0.9 * later",
)
AS_MEANT = (
    "done = ends\n    target = (rewards + 0.9 * (1 - done) * target_network(following).max(1).values).detach()",
    "not_done = 1 - ends\n    target = (rewards + 0.9 * not_done * target_network(following).max(1).values).detach()",
    "done = 1 - ends\n    target = (rewards + 0.9 * done * target_network(following).max(1).values).detach()",
    "weights = ends\n    target = (rewards + weights * target_network(following).max(1).values).detach()",
    "done = ends\n    target = (rewards - 5 * done + 0.9 * target_network(following).amax(1)).detach()",
)


@pytest.mark.parametrize("target", TURNED)
def test_values_that_count_only_at_the_end_of_an_episode_are_told(target: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + BOOTSTRAP.format(target=target) + TRAIN, "bootstraps_at_ends", tmp_path)


@pytest.mark.parametrize("target", AS_MEANT)
def test_flags_that_are_turned_round_or_mean_something_else_are_right(target: str, tmp_path: Path) -> None:
    assert "bootstraps_at_ends" not in causes(HEAD + BOOTSTRAP.format(target=target) + TRAIN, tmp_path)


ACTIONS = """
policy, critic = nn.Linear(4, 4), nn.Linear(6, 1).requires_grad_(False)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
for step in range(3):
    states = torch.randn(8, 4)
    mean, log_std = policy(states).chunk(2, dim=1)
    std = log_std.clamp(-5, 2).exp()
    distribution = torch.distributions.Normal(mean, std)
    {action}
    loss = (0.2 * score.sum(1, keepdim=True) - critic(torch.cat([states, action], dim=1))).mean()
"""
NOT_COUNTED = (
    "u = distribution.rsample()\n    action, score = torch.tanh(u), distribution.log_prob(u)  # HERE",
    "u = mean + std * torch.randn_like(std)\n    action = u.tanh()\n"
    "    score = -0.5 * ((u - mean) / std).pow(2) - log_std  # HERE",
)
COUNTED = (
    "u = distribution.rsample()\n    action = torch.tanh(u)\n"
    "    score = distribution.log_prob(u) - torch.log(1 - action.pow(2) + 1e-6)",
    "u = distribution.rsample()\n    action = torch.tanh(u)\n"
    "    score = distribution.log_prob(u) - 2 * (0.6931 - u - F.softplus(-2 * u))",
    "tanh = torch.distributions.TanhTransform(cache_size=1)\n"
    "    squashed = torch.distributions.TransformedDistribution(distribution, tanh)\n"
    "    action = squashed.rsample()\n    score = squashed.log_prob(action)",
    "action = distribution.rsample()\n    score = distribution.log_prob(action)",
)


@pytest.mark.parametrize("action", NOT_COUNTED)
def test_a_squashed_action_with_the_probability_of_what_was_squashed_is_told(action: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + ACTIONS.format(action=action) + TRAIN, "squash_not_counted", tmp_path)


@pytest.mark.parametrize("action", COUNTED)
def test_squashed_actions_with_their_own_probability_are_right(action: str, tmp_path: Path) -> None:
    assert "squash_not_counted" not in causes(HEAD + ACTIONS.format(action=action) + TRAIN, tmp_path)


ANSWERS = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.dropout = nn.Linear(6, 8), nn.Linear(8, 3), nn.Dropout(0.3)
    def forward(self, x):
        {forward}
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = F.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
"""


def test_answers_that_dropout_throws_away_are_told(tmp_path: Path) -> None:
    forward = "return self.dropout(self.last(F.relu(self.first(x))))  # HERE"
    assert_first_alarm(HEAD + ANSWERS.format(forward=forward) + TRAIN, "dropout_before_loss", tmp_path)


@pytest.mark.parametrize(
    "forward",
    [
        "return self.last(self.dropout(F.relu(self.first(x))))",
        "return F.dropout(self.last(F.relu(self.first(x))), 0.0)",
        "return self.last(self.dropout(F.relu(self.first(x)))) + 0.1 * self.dropout(self.last(self.first(x)))",
    ],
)
def test_dropout_before_the_last_layer_is_right(forward: str, tmp_path: Path) -> None:
    assert "dropout_before_loss" not in causes(HEAD + ANSWERS.format(forward=forward) + TRAIN, tmp_path)
