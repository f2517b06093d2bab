"""Gradients that are added up though they should not be, and gradients that a program computes by hand."""

from __future__ import annotations

from pathlib import Path

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

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
