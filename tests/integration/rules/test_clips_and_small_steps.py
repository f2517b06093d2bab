"""Gradients that are clipped to nothing, and learning rates with which nothing moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

FIT = (
    HEAD + "net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))\n"
    "optimizer = torch.optim.{}\ndata = torch.randn(64, 4)\ntargets = 3 + data[:, :1] * 2\n"
    "for step in range(24):\n    rows = torch.randint(0, 64, (16,))\n"
    "    loss = F.mse_loss(net(data[rows]), targets[rows])\n    optimizer.zero_grad()\n    loss.backward()\n{}"
    "    optimizer.step()\n"
)
SGD = "SGD(net.parameters(), 0.01)"
NORM = "    nn.utils.clip_grad_norm_(net.parameters(), {})\n"
BY_HAND = (
    "    norm = torch.stack([p.grad.norm() for p in net.parameters()]).norm()\n    for p in net.parameters():\n"
    "        p.grad.mul_((1e-4 / norm).clamp(max=1.0))  # HERE\n"
)
FAULTS = {
    "a norm of zero": (
        "clipped_to_nothing", FIT.format(SGD, "    nn.utils.clip_grad_norm_(net.parameters(), 0.0)  # HERE\n"),
    ),
    "a norm of zero beside weight decay": (
        "clipped_to_nothing",
        FIT.format("AdamW(net.parameters(), 0.01)", "    nn.utils.clip_grad_norm_(net.parameters(), 0)  # HERE\n"),
    ),
    "a norm of a ten-thousandth": (
        "clipped_to_nothing", FIT.format(SGD, "    nn.utils.clip_grad_norm_(net.parameters(), 1e-4)  # HERE\n"),
    ),
    "values below a ten-thousandth": (
        "clipped_to_nothing", FIT.format(SGD, "    nn.utils.clip_grad_value_(net.parameters(), 1e-4)  # HERE\n"),
    ),
    "by hand": ("clipped_to_nothing", FIT.format(SGD, BY_HAND)),
    "a rate of fine-tuning for SGD": ("steps_too_small", FIT.format("SGD(net.parameters(), 1e-7)  # HERE", "")),
    "next to no rate for Adam": ("steps_too_small", FIT.format("AdamW(net.parameters(), 1e-8)  # HERE", "")),
}  # fmt: skip
HEALTHY = {
    "a norm that is reached now and then": FIT.format(SGD, NORM.format("4.0")),
    "small norms before steps of Adam": FIT.format("Adam(net.parameters(), 0.01)", NORM.format("1e-3")),
    "small norms and a large rate": FIT.format("SGD(net.parameters(), 10.0)", NORM.format("1e-2")),
    "small values of which none reaches the bound": FIT.format(
        "SGD(net.parameters(), 0.01)", "    nn.utils.clip_grad_value_(net.parameters(), 50.0)\n"
    ),
    "a rate that rises": FIT.format(
        "SGD(net.parameters(), 1e-7)", "    optimizer.param_groups[0]['lr'] = 1e-7 * 1.1 ** step\n"
    ),
    "a rate of fine-tuning": FIT.format("AdamW(net.parameters(), 1e-5)", ""),
    "a sum of many errors": FIT.format("SGD(net.parameters(), 1e-5)", "").replace(
        "targets[rows])", "targets[rows], reduction='sum')"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_line_that_keeps_weights_where_they_are_is_told(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    assert_first_alarm(script, cause, tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_clips_and_rates_that_let_weights_move_are_no_alarms(name: str, tmp_path: Path) -> None:
    assert alarms(HEALTHY[name], tmp_path) == []
