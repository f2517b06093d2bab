"""Temperatures that are applied twice, sums of exponentials that have the diagonal; and losses that are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

_SCRIPT = """
one, other = nn.Linear(6, 8), nn.Linear(5, 8)
scale = nn.Parameter(torch.tensor(2.0))
optimizer = torch.optim.SGD([*one.parameters(), *other.parameters(), scale], lr=0.01)
T, pairs = 0.3, torch.randn(4, 11)
for step in range(4):
    hidden = torch.randn(16, 4) @ pairs
    a, b = F.normalize(one(hidden[:, :6]), dim=1), F.normalize(other(hidden[:, 6:]), dim=1)
    BODY
"""
_LABELS = """
encode = nn.Linear(6, 8)
optimizer = torch.optim.SGD(encode.parameters(), lr=0.1)
centres, own = torch.randn(3, 6), torch.eye(16)
for step in range(4):
    y = torch.randint(0, 3, (16,))
    z = F.normalize(encode(centres[y] + 0.3 * torch.randn(16, 6)), dim=1)
    same = (y[:, None] == y).float() * (1 - own)
    BODY
"""


def of(script: str, *lines: str) -> str:
    body = "\n    ".join(lines)
    script = script if "scale" in body else script.replace(", scale]", "]").replace("scale = ", "factor = ")
    return HEAD + script.replace("BODY", body).rstrip() + TRAIN


_BOTH_WAYS = "loss = F.cross_entropy(s, torch.arange(16)) + F.cross_entropy(s.T, torch.arange(16))"


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        (of(_SCRIPT, "s = a @ b.T / T", "s = s / T  # HERE", _BOTH_WAYS), "temperature_twice"),
        (
            of(
                _SCRIPT,
                "s = a @ b.T * scale.exp()",
                "loss = F.cross_entropy(s.T * scale.exp(), torch.arange(16))  # HERE",
            )
            .replace("scale.exp() * a @", "a @")
            .replace("b.T\n", "b.T * scale.exp()\n"),
            "temperature_twice",
        ),
        (
            of(
                _SCRIPT,
                "s = F.cosine_similarity(a[:, None], b[None], dim=-1).div(T)",
                "e = torch.exp(s / T)  # HERE",
                "loss = -(e.diag() / e.sum(1)).log().mean()",
            ),
            "temperature_twice",
        ),
        (
            of(
                _LABELS,
                "e = torch.exp(z @ z.T / 0.2)  # HERE",
                "loss = -((e * same).sum(1) / e.sum(1) + 1e-8).log().mean()",
            ),
            "similar_to_itself",
        ),
    ],
    ids=["divided twice", "a trained scale", "exponentials", "a mask of positives only"],
)
def test_scores_that_are_too_sure(script: str, cause: str, tmp_path: Path) -> None:
    assert_first_alarm(script, cause, tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        of(_SCRIPT, "s = a @ b.T / T", _BOTH_WAYS),
        of(_SCRIPT, "s = a @ b.T * scale.exp()", _BOTH_WAYS),
        # Once down and once up; a factor of the loss; another number.
        of(_SCRIPT, "s = a @ b.T / T", "print((s * T).max().item())", _BOTH_WAYS, "loss = loss / T"),
        of(_SCRIPT, "s = (a @ b.T - 0.1) / T", "s = s / 2", _BOTH_WAYS),
        of(
            _LABELS,
            "e = torch.exp(z @ z.T / 0.2)",
            "e = e * (1 - own)",
            "loss = -((e * same).sum(1) / e.sum(1) + 1e-8).log().mean()",
        ),
        of(
            _LABELS,
            "e = torch.exp(z @ z.T / 0.2)",
            "loss = -((e * same).sum(1) / (e * (1 - own)).sum(1) + 1e-8).log().mean()",
        ),
    ],
)
def test_scores_with_one_temperature(script: str, tmp_path: Path) -> None:
    assert alarms(script, tmp_path) == []
