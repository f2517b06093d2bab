"""Estimates of divergences by samples: which way round their log-ratio is, and whose samples they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

POLICY = """
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 5))
reference = copy.deepcopy(policy).requires_grad_(False)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
def logp(model, states, tokens):
    return -F.cross_entropy(model(states), tokens, reduction="none")
for step in range(4):
    states = torch.randn(16, 4)
    with torch.no_grad():
        tokens = torch.multinomial({drawn}(states).softmax(-1), 1).squeeze(1)
        old, ref = logp(policy, states, tokens), logp(reference, states, tokens)
        reward = (tokens < 2).float()
    for epoch in range(2):
        new = logp(policy, states, tokens)
        gain = ((new - old).exp() * (reward - reward.mean())).mean()
"""
STEP = "\n".join("    " + line for line in TRAIN.splitlines())
TURNED = (
    "        d = new - ref  # HERE\n        loss = 0.1 * (torch.exp(d) - d - 1).mean() - gain",
    "        d = new.sub(ref)  # HERE\n        loss = 0.1 * ((d.exp() - 1) - d).sum() - gain",
    "        d = new - ref  # HERE\n        loss = 0.1 * (torch.expm1(d) - d).mean() - gain",
)
RIGHT = (
    "        d = ref - new\n        loss = 0.1 * (torch.exp(d) - d - 1).mean() - gain",
    # The samples are those of the old policy.
    "        d = new - old\n        loss = 0.1 * (torch.exp(d) - d - 1).mean() - gain",
    "        d = new - ref\n        loss = 0.1 * d.mean() - gain",
    "        d = new - ref\n        loss = 0.1 * d.square().mean() - gain",
    "        with torch.no_grad():\n            d = new - old\n            print((d.exp() - 1 - d).mean())\n"
    "        loss = -gain",
)


@pytest.mark.parametrize("loss", TURNED)
def test_an_estimate_that_is_turned_around_is_told(loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + POLICY.format(drawn="policy") + loss + STEP, "estimate_turned_around", tmp_path)


@pytest.mark.parametrize("loss", RIGHT)
def test_other_estimates_are_right(loss: str, tmp_path: Path) -> None:
    found = alarms(HEAD + POLICY.format(drawn="policy") + loss + STEP, tmp_path)
    assert "estimate_turned_around" not in {each.cause for each in found}


def test_samples_of_the_reference_want_it_the_other_way(tmp_path: Path) -> None:
    found = alarms(HEAD + POLICY.format(drawn="reference") + TURNED[0] + STEP, tmp_path)
    assert "estimate_turned_around" not in {each.cause for each in found}
