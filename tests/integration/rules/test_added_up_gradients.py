"""Gradients that are added up though they should not be, and gradients that a program computes by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.recording.calls.rows import Rows
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.script_runner import run
from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm, findings

MODEL = HEAD + "model = nn.Linear(6, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"

SHARPNESS = (
    MODEL + "def climb():\n    with torch.no_grad():\n        kept = [p.clone() for p in model.parameters()]\n"
    "        for p in model.parameters():\n            p.add_(0.05 * p.grad / p.grad.norm())\n    return kept\n\n"
    "for step in range(5):\n    x, y = torch.randn(32, 6), torch.randn(32, 1)\n"
    "    F.mse_loss(model(x), y).backward()\n    kept = climb()  # HERE\n{}"
    "    F.mse_loss(model(x), y).backward()\n    for p, before in zip(model.parameters(), kept):\n"
    "        p.data = before\n    optimizer.step()\n    optimizer.zero_grad()\n"
)

OF_EACH_SAMPLE = (
    MODEL + "for step in range(3):\n    x, y = torch.randn(4, 6), torch.randn(4, 1)\n"
    "    optimizer.zero_grad()\n    for one, wanted in zip(x, y):\n"
    "        ((model(one) - wanted).square().mean() / 4).backward()\n"
)
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)"


def test_a_sharpness_aware_step_that_keeps_the_first_gradient_is_told(tmp_path: Path) -> None:
    assert_first_alarm(SHARPNESS.format(""), "missing_zero_grad", tmp_path)
    assert not alarms(SHARPNESS.format("    optimizer.zero_grad()\n"), tmp_path)


def test_weights_that_are_bounded_after_each_step_may_collect_gradients(tmp_path: Path) -> None:
    script = OF_EACH_SAMPLE + "    optimizer.step()\n    with torch.no_grad():\n        model.weight.clamp_(-1, 1)\n"
    assert not alarms(script, tmp_path)


def test_clipping_of_a_sum_that_grows_is_told(tmp_path: Path) -> None:
    assert_first_alarm(f"{OF_EACH_SAMPLE}        {CLIP}  # HERE\n    optimizer.step()\n", "clip_misplaced", tmp_path)
    assert not alarms(f"{OF_EACH_SAMPLE}    {CLIP}\n    optimizer.step()\n", tmp_path)


OF_EACH = (
    MODEL
    + "params = list(model.parameters())\nfor step in range(3):\n    x, y = torch.randn(6, 6), torch.randn(6, 1)\n"
    "    optimizer.zero_grad()\n    sums, kept = [torch.zeros_like(p) for p in params], []\n"
    "    for one, wanted in zip(x, y):\n{clear}        F.mse_loss(model(one), wanted).backward()  # HERE\n{read}"
    "{after}    optimizer.step()\n"
)
CLIPPED = "        for s, p in zip(sums, params):\n            s += p.grad / max(1.0, p.grad.norm().item())\n"
MEAN = "    for p, s in zip(params, sums):\n        p.grad = s / 6\n"
OF_SUMS = {
    "clipped by hand and added in place": (CLIPPED, MEAN),
    "copied, multiplied by a tensor and added out of place": (
        "        grads = [p.grad.detach().clone() for p in params]\n"
        "        norm = torch.stack([g.norm() for g in grads]).norm()\n"
        "        sums = [s + g * (1 / norm).clamp(max=1.0) for s, g in zip(sums, grads)]\n",
        MEAN,
    ),
    "kept in a list and stacked": (
        "        kept.append(torch.cat([p.grad.flatten() for p in params]))\n",
        "    each = F.normalize(torch.stack(kept), dim=1).mean(0)\n    params[0].grad = each[:6].view(1, 6)\n",
    ),
    "squared, for a Fisher information": (
        "        for s, p in zip(sums, params):\n            s.add_(p.grad.pow(2))\n",
        "    optimizer.zero_grad()\n    F.mse_loss(model(x), y).backward()\n",
    ),
}


@pytest.mark.parametrize(("read", "after"), OF_SUMS.values(), ids=OF_SUMS)
def test_gradients_of_samples_that_nothing_clears_between_are_told(read: str, after: str, tmp_path: Path) -> None:
    assert_first_alarm(OF_EACH.format(clear="", read=read, after=after), "missing_zero_grad", tmp_path)
    cleared = OF_EACH.format(clear="        model.zero_grad()\n", read=read, after=after)
    assert "missing_zero_grad" not in [each.cause for each in alarms(cleared, tmp_path)]


OF_ONE = {
    "norms are kept": "        kept.append(torch.stack([p.grad.norm() for p in params]).norm())\n",
    "differences of two readings": "        grads = [p.grad.clone() for p in params]\n"
    "        before = kept[-1] if kept else sums\n        kept.append(grads)\n"
    "        sums = [s + F.normalize(g - b, dim=0) for s, g, b in zip(sums, grads, before)]\n",
}


@pytest.mark.parametrize("read", OF_ONE.values(), ids=OF_ONE)
def test_readings_that_no_sum_is_made_of_are_right(read: str, tmp_path: Path) -> None:
    found = alarms(OF_EACH.format(clear="", read=read, after=""), tmp_path)
    assert "missing_zero_grad" not in [each.cause for each in found]


def test_gradients_that_replace_sums_are_not_divided_once_more(tmp_path: Path) -> None:
    read = f"        {CLIP}\n" + CLIPPED
    (found,) = alarms(OF_EACH.format(clear="", read=read, after=MEAN), tmp_path)
    assert found.cause == "clip_misplaced"


def test_a_gradient_computed_by_hand_from_scores_and_data_is_right(tmp_path: Path) -> None:
    script = (
        MODEL + "for step in range(4):\n    x, grades = torch.randn(16, 6), torch.rand(16)\n"
        "    scores = model(x).squeeze(-1)\n    with torch.no_grad():\n"
        "        slope = torch.sigmoid(-(scores[:, None] - scores)) * (grades[:, None] > grades)\n"
        "        slope = slope.sum(0) - slope.sum(1)\n    optimizer.zero_grad()\n"
        "    scores.backward(slope / 16)\n    optimizer.step()\n"
    )
    assert not alarms(script, tmp_path)


def test_the_losses_as_their_own_gradient_are_told(tmp_path: Path) -> None:
    script = (
        MODEL + "for step in range(4):\n    optimizer.zero_grad()\n"
        "    losses = (model(torch.randn(16, 6)) - 1).square()\n"
        "    losses.backward(losses.detach() / 16)  # HERE\n    optimizer.step()\n"
    )
    assert_first_alarm(script, "grad_argument", tmp_path)


TWO_PLAYERS = (
    HEAD + "actor, critic = nn.Linear(3, 2), nn.Linear(5, 1)\n"
    "of_actor, of_critic = (torch.optim.Adam(each.parameters(), 1e-3) for each in (actor, critic))\n"
    "def of_both(s, a):\n    return critic(torch.cat([s, a], 1))\n"
    "for step in range(90):\n    s, a, r = torch.randn(8, 3), torch.randn(8, 2), torch.randn(8, 1)\n{}"
)
CLEARED_AT_THE_TOP = (
    "    of_actor.zero_grad()\n    (-of_both(s, actor(s)).mean()).backward()\n    of_actor.step()\n"
    "    of_critic.zero_grad()\n    F.mse_loss(of_both(s, a), r).backward()\n    of_critic.step()\n"
)
CLEARED_AT_THE_END = (
    "    F.mse_loss(of_both(s, a), r).backward()\n    of_critic.step()\n    of_critic.zero_grad()\n"
    "    (-of_both(s, actor(s)).mean()).backward()\n    of_actor.step()\n"
    "    of_actor.zero_grad()\n    of_critic.zero_grad()\n"
)


@pytest.mark.parametrize("update", [CLEARED_AT_THE_TOP, CLEARED_AT_THE_END])
@pytest.mark.parametrize("rows", [300, 320])
def test_a_long_run_of_which_steps_are_left_out_has_cleared_its_gradients(
    rows: int, update: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rows.__init__, "__defaults__", (rows,))
    assert not alarms(TWO_PLAYERS.format(update), tmp_path)


def test_what_the_loss_of_an_actor_leaves_in_the_critic_is_told_at_its_own_backward(tmp_path: Path) -> None:
    script = HEAD + (
        "actor, critic = nn.Linear(3, 1), nn.Linear(4, 1)\n"
        "first = torch.optim.SGD(actor.parameters(), lr=0.1)\n"
        "second = torch.optim.SGD(critic.parameters(), lr=0.1)\n"
        "for step in range(4):\n"
        "    s, a, q = torch.randn(8, 3), torch.randn(8, 1), torch.randn(8, 1)\n"
        "    first.zero_grad()\n"
        "    second.zero_grad()  # CLEARED\n"
        "    aim = -critic(torch.cat([s, actor(s)], 1)).mean()\n"
        "    aim.backward()\n"
        "    first.step()\n"
        "    loss = F.mse_loss(critic(torch.cat([s, a], 1)), q)\n"
        "    loss.backward()  # HERE\n"
        "    second.step()\n"
    )
    here, cleared = (
        next(number for number, line in enumerate(script.splitlines(), 1) if line.endswith(mark))
        for mark in ("# HERE", "# CLEARED")
    )
    found = [each for each in alarms(script, tmp_path) if each.code == "GV601"]
    assert [each.location and each.location.line for each in found] == [here]
    assert (found[0].fix or "").endswith(f"right before this backward(), not only at line {cleared}")
    again = script.replace("    loss.backward()", "    second.zero_grad()\n    loss.backward()")
    assert "GV601" not in [each.code for each in alarms(again, tmp_path)]


def test_a_clearing_among_calls_that_were_not_kept_is_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        MODEL + "for step in range(4):\n    loss = model(torch.randn(5, 6)).square().mean()\n"
        "    if step != 2:\n        optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    )
    capture = run(
        find_script(str(path)), (), RecordingPlan(backward=None, keep_going=True, calls=True, for_pictures=False)
    ).capture
    assert capture.calls is not None
    reused = Case(capture).gradient_events.reused
    assert [each.steps for each in reused] == [1]
    missing = replace(capture.calls, dropped=1, dropped_at=reused[0].backward)
    assert not Case(replace(capture, calls=missing)).gradient_events.reused


BY_HAND = (
    MODEL
    + "params = list(model.parameters())\nfor step in range(3):\n    x, y = torch.randn(12, 6), torch.randn(12, 1)\n"
    "    {start}\n    for one, wanted in zip(x.split(4), y.split(4)):\n        loss = F.mse_loss(model(one), wanted)\n"
    "        grads = torch.autograd.grad(loss, params)  # HERE\n        {add}\n"
    "    for p, g in zip(params, {total}):\n        p.grad = g\n    optimizer.step()\n"
)
ZEROS = "sums = [torch.zeros_like(p) for p in params]"
SUMS_OF_PIECES = (
    BY_HAND.format(start=ZEROS, add="torch._foreach_add_(sums, grads)", total="sums"),
    BY_HAND.format(start=ZEROS, add="for s, g in zip(sums, grads): s += g", total="sums"),
    BY_HAND.format(start="kept = []", add="kept.append(grads)", total="(torch.stack(g).sum(0) for g in zip(*kept))"),
)
MEANS_OF_PIECES = (
    BY_HAND.format(start=ZEROS, add="torch._foreach_add_(sums, grads, alpha=1 / 3)", total="sums"),
    BY_HAND.format(start=ZEROS, add="torch._foreach_add_(sums, grads)", total="torch._foreach_div(sums, 3)"),
    BY_HAND.format(start="kept = []", add="kept.append(grads)", total="(torch.stack(g).mean(0) for g in zip(*kept))"),
    BY_HAND.format(start=ZEROS, add="sums = list(grads)", total="sums"),
)


@pytest.mark.parametrize("script", SUMS_OF_PIECES)
def test_gradients_of_pieces_that_are_added_by_hand_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "accumulation_undivided", tmp_path)


@pytest.mark.parametrize("script", MEANS_OF_PIECES)
def test_means_of_gradients_of_pieces_are_right(script: str, tmp_path: Path) -> None:
    assert "accumulation_undivided" not in {each.cause for each in alarms(script, tmp_path)}


FROM_AN_EDGE = (
    MODEL + "edge, one = torch.autograd.graph.get_gradient_edge, torch.ones(())\n"
    "x, y = torch.randn(6, 6), torch.randn(6, 1)\n"
    "for i, {given} in enumerate(torch.randn(8, 6, 6)):\n    loss = F.mse_loss(model(x), y)\n"
    "    torch.autograd.backward((edge(loss),), (one,))\n    if i % 4 == 3:\n        optimizer.step()\n"
    "        optimizer.zero_grad()\n"
)


@pytest.mark.parametrize("given", ["x", "unread"])
def test_no_rule_fails_where_backward_starts_from_no_tensor(given: str, tmp_path: Path) -> None:
    # As a stage of a pipeline does with torch 2.15, which has let go of what it sent.
    assert "failed_rule" not in {each.cause for each in findings(FROM_AN_EDGE.format(given=given), tmp_path)}


FISHER = (
    MODEL
    + """
x, y = torch.randn(24, 6), torch.randn(24, 1)
for task in range(3):
    for _ in range(3):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    squares = [torch.zeros_like(p) for p in model.parameters()]
    for one, target in zip(x.split(1), y.split(1)):
        model.zero_grad()
        F.mse_loss(model(one), target).backward()
        for square, p in zip(squares, model.parameters()):
            square += p.grad.pow(2) / 24
"""
)


def test_gradients_that_are_cleared_between_samples_are_not_added_up(tmp_path: Path) -> None:
    assert "accumulation_undivided" not in {each.cause for each in alarms(FISHER, tmp_path)}
