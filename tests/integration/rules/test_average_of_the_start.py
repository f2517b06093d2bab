"""Moving averages of weights that are scored while most of them still is the random initialization."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, findings

PROGRAM = (
    HEAD
    + """
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
x = torch.randn(64, 6)
y = x.sum(1, keepdim=True) + 0.1 * torch.randn(64, 1)
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
{made}
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range({steps}):
    loss = F.mse_loss(net(x), y){term}
"""
    + TRAIN
    + """
    with torch.no_grad():
{updated}
with torch.no_grad():
    {scored}
"""
)
COPY = "average = copy.deepcopy(net).requires_grad_(False)"
SHADOW = "shadow = {n: p.detach().clone() for n, p in net.named_parameters()}"
PAIRS = "        for a, p in zip(average.parameters(), net.parameters()):\n            "
NAMED = "        for n, p in net.named_parameters():\n            "
SCORE = "print(F.mse_loss(average(x), y))"
APPLIED = "for n, p in net.named_parameters(): p.copy_(shadow[n])\n    print(F.mse_loss(net(x), y))"
LOADED = "net.load_state_dict(shadow)\n    print(F.mse_loss(net(x), y))"
BY_HAND = "torch.func.functional_call(net, shadow, (x,))"
EMA = "average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn({}))"


def script(
    made: str = COPY, updated: str = PAIRS + "a.lerp_(p, 0.001)  # HERE", scored: str = SCORE, **others: str | int
) -> str:
    return PROGRAM.format(made=made, updated=updated, scored=scored, **{"steps": 120, "term": "", **others})


@pytest.mark.parametrize(
    ("made", "updated", "scored"),
    [
        (COPY, PAIRS + "a.lerp_(p, 1 - 0.9999)  # HERE", SCORE),
        (COPY, PAIRS + "a.mul_(0.999).add_(p, alpha=0.001)  # HERE", SCORE),
        (COPY, PAIRS + "a.data = 0.999 * a.data + (1 - 0.999) * p.data  # HERE", SCORE),
        (COPY, PAIRS + "a.copy_(0.999 * a + 0.001 * p)  # HERE", SCORE),
        (SHADOW, NAMED + "shadow[n].mul_(0.999).add_(p, alpha=0.001)  # HERE", APPLIED),
        (SHADOW, NAMED + "shadow[n].mul_(0.999).add_(p, alpha=0.001)  # HERE", LOADED),
        (SHADOW, NAMED + "shadow[n].lerp_(p, 0.001)  # HERE", BY_HAND),
        (EMA.format(0.999), "        average.update_parameters(net)  # HERE", SCORE),
    ],
)
def test_averages_that_hardly_leave_their_start_are_told(made: str, updated: str, scored: str, tmp_path: Path) -> None:
    assert_first_alarm(script(made, updated, scored), "average_of_the_start", tmp_path)


@pytest.mark.parametrize(
    ("made", "updated", "scored"),
    [
        (COPY, PAIRS + "a.lerp_(p, 0.05)", SCORE),
        (COPY, "        d = min(0.9999, (1 + step) / (10 + step))\n" + PAIRS + "a.lerp_(p, 1 - d)", SCORE),
        (COPY, PAIRS + "a.copy_(p) if step < 60 else a.lerp_(p, 0.001)", SCORE),  # an average of trained weights
        (EMA.format(0.95), "        average.update_parameters(net)", SCORE),
        (EMA.format(0.999), "        if step > 60: average.update_parameters(net)", SCORE),
        (
            "shadow = {n: torch.zeros_like(p) for n, p in net.named_parameters()}",
            NAMED + "shadow[n].mul_(0.999).add_(p, alpha=0.001)",
            "for n, p in net.named_parameters(): p.copy_(shadow[n] / (1 - 0.999 ** 120))\n    print(net(x))",
        ),
        (  # a model that was trained before
            "state = {n: p.clone() for n, p in net.state_dict().items()}\nnet.load_state_dict(state)\n" + COPY,
            PAIRS + "a.lerp_(p, 0.001)",
            SCORE,
        ),
        (COPY, PAIRS + "a.lerp_(p, 0.001)", "print(F.mse_loss(net(x), y))"),
    ],
)
def test_other_averages_are_right(made: str, updated: str, scored: str, tmp_path: Path) -> None:
    assert not alarms(script(made, updated, scored), tmp_path)


def test_new_tensors_for_each_average_are_told(tmp_path: Path) -> None:
    updated = NAMED + "shadow[n] = 0.999 * shadow[n] + 0.001 * p.detach()  # HERE"
    assert_first_alarm(script(SHADOW, updated, APPLIED, steps=60), "average_of_the_start", tmp_path)


@pytest.mark.parametrize("updated", ["a.copy_(0.99 * a + 0.01 * p)", "a.data = 0.99 * a.data + 0.01 * p.data"])
def test_updates_that_are_not_all_recorded_are_counted(updated: str, tmp_path: Path) -> None:
    assert not alarms(script(updated=PAIRS + updated), tmp_path)


def test_short_runs_are_left_alone(tmp_path: Path) -> None:
    assert not alarms(script(steps=40), tmp_path)


def test_the_slow_target_of_a_loss_is_right(tmp_path: Path) -> None:
    term = " + 0.1 * F.mse_loss(net(x), average(x))"
    assert not alarms(script(term=term), tmp_path)
    later = "if step % 40 == 0: print(average(x).mean())"
    assert not alarms(script(term=term, updated=PAIRS + "a.lerp_(p, 0.001)\n        " + later), tmp_path)


def test_an_average_beside_the_trained_weights_is_a_note(tmp_path: Path) -> None:
    found = findings(script(scored="print(F.mse_loss(net(x), y), F.mse_loss(average(x), y))"), tmp_path)
    assert [(each.cause, each.severity) for each in found] == [("average_of_the_start", "note")]
