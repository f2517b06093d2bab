"""Weights of errors that are one over a probability which labels train in the same loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

TREATED = (
    """
chance = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
outcome = nn.Sequential(nn.Linear(5, 8), nn.ELU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam([*chance.parameters(), *outcome.parameters()], lr=0.01)
for step in range(12):
    x = torch.randn(32, 4)
    t = (x[:, 0] + torch.randn(32) > 0).float()
    y = x[:, 1] + t
    e = chance(x).squeeze(1).clamp(0.05, 0.95)
    mu = outcome(torch.cat([x, t[:, None]], 1)).squeeze(1)
    weight = t / e + (1 - t) / (1 - e)
    error = (weight * (y - mu) ** 2).mean()  # HERE
    loss = F.binary_cross_entropy(e, t) + error
"""
    + TRAIN
)
SEEN = (
    """
exposed, rating = nn.Linear(6, 1), nn.Linear(6, 1)
optimizer = torch.optim.SGD([*exposed.parameters(), *rating.parameters()], lr=0.01)
for step in range(12):
    x = torch.randn(64, 6)
    seen = (x[:, 2] > 0).float()
    scores = exposed(x).squeeze(1)
    inverse = scores.sigmoid().clamp(min=0.1).reciprocal()
    errors = F.mse_loss(rating(x).squeeze(1), x[:, 1], reduction="none")
    weighted = errors * seen * inverse  # HERE
    loss = weighted.mean() + F.binary_cross_entropy_with_logits(scores, seen)
"""
    + TRAIN
)
FAULTY = {"a treatment": TREATED, "ratings that were seen": SEEN}
RIGHT = {
    "weights that are constants": TREATED.replace("weight = t / e + (1 - t) / (1 - e)", "weight = t / e.detach()"),
    "a probability that labels do not train": SEEN.replace(
        " + F.binary_cross_entropy_with_logits(scores, seen)", " + scores.square().mean()"
    ),
    "a spread that the loss trains": SEEN.replace("seen * inverse", "inverse")
    .replace(".sigmoid().clamp(min=0.1).reciprocal()", ".exp().reciprocal()")
    .replace(" + F.binary_cross_entropy_with_logits(scores, seen)", " + scores.mean()"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_gradient_into_inverse_propensities_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + FAULTY[name], "gradient_into_target", tmp_path)


@pytest.mark.parametrize("name", RIGHT)
def test_other_weights_are_left_alone(name: str, tmp_path: Path) -> None:
    found = alarms(HEAD + RIGHT[name], tmp_path)
    assert [(each.cause, each.message) for each in found] == []
