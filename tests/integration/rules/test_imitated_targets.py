"""Layers that imitate the probabilities of another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
body, deep, early = nn.Sequential(nn.Linear(6, 12), nn.Tanh()), nn.Linear(12, 3), nn.Linear(12, 3)
optimizer = torch.optim.Adam([*body.parameters(), *deep.parameters(), *early.parameters()], lr=0.01)
for step in range(5):
    x = torch.randn(24, 6)
    y = x[:, :3].argmax(1)
    h = body(x)
    last, out = deep(h), early(h)
    {lines}
    loss = F.cross_entropy(last, y) + F.cross_entropy(out, y) + {term}
"""
    + TRAIN
)


@pytest.mark.parametrize(
    ("lines", "term"),
    [
        (
            "soft = F.softmax(last / 2, 1)  # HERE",
            "4 * F.kl_div(F.log_softmax(out / 2, 1), soft, reduction='batchmean')",
        ),
        (
            "soft = F.log_softmax(last, 1)  # HERE",
            "F.kl_div(F.log_softmax(out, 1), soft, reduction='batchmean', log_target=True)",
        ),
        ("soft = last.softmax(1)  # HERE", "F.cross_entropy(out, soft)"),
    ],
)
def test_a_target_that_is_not_detached_is_told(lines: str, term: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM.format(lines=lines, term=term), "gradient_into_target", tmp_path)


@pytest.mark.parametrize(
    ("lines", "term"),
    [
        (
            "soft = F.softmax(last.detach() / 2, 1)",
            "4 * F.kl_div(F.log_softmax(out / 2, 1), soft, reduction='batchmean')",
        ),
        # Each imitates the other.
        (
            "p, q = F.log_softmax(last, 1), F.log_softmax(out, 1)",
            "F.kl_div(p, q, log_target=True) + F.kl_div(q, p, log_target=True)",
        ),
        # Both are drawn to their mean.
        (
            "p, q = last.softmax(1), out.softmax(1)\n    mean = ((p + q) / 2).log()",
            "F.kl_div(mean, p) + F.kl_div(mean, q)",
        ),
        # Two passes of one network.
        ("again = deep(body(x + 0.1))", "F.kl_div(F.log_softmax(again, 1), last.softmax(1))"),
        # A prior that is learned, without labels.
        ("prior = nn.Linear(6, 3)(x)", "F.kl_div(F.log_softmax(out, 1), F.softmax(prior, 1))"),
    ],
    ids=["detached", "mutual", "mean", "one network", "no labels"],
)
def test_other_targets_are_left_alone(lines: str, term: str, tmp_path: Path) -> None:
    found = alarms(PROGRAM.format(lines=lines, term=term), tmp_path)
    assert "gradient_into_target" not in {each.cause for each in found}


def test_a_code_that_is_decoded_trains_with_its_prior(tmp_path: Path) -> None:
    program = PROGRAM.replace("*body.parameters()", "*decoder.parameters(), *body.parameters()").replace(
        "optimizer =", "decoder = nn.Linear(3, 2)\noptimizer =", 1
    )
    rate = "F.kl_div(F.log_softmax(out, 1), code, reduction='batchmean')"
    error = "(decoder(code) - x[:, :2]).square().mean()"
    assert not alarms(program.format(lines="code = last.softmax(1)", term=f"{rate} + {error}"), tmp_path)
