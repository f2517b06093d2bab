"""Schedules that begin anew where a training goes on from a saved state."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

RESUMED = (
    HEAD + "import io\nfrom torch.optim import lr_scheduler\n"
    "x = torch.randn(64, 4)\ny = x.sum(1, keepdim=True)\n"
    "def build():\n    net = nn.Linear(4, 1)\n    optimizer = torch.optim.{}\n"
    "    return net, optimizer, lr_scheduler.{}\n"
    "def run(net, optimizer, scheduler, steps):\n    for step in range(steps):\n"
    "        loss = F.mse_loss(net(x), y)" + TRAIN.replace("\n    ", "\n        ") + "        scheduler.step()\n"
    "net, optimizer, scheduler = build()\nrun(net, optimizer, scheduler, 14)\nfile = io.BytesIO()\n"
    "torch.save([net.state_dict(), optimizer.state_dict(), scheduler.state_dict()], file)\nfile.seek(0)\n"
    "saved = torch.load(file)\nnet, optimizer, scheduler = build()\nnet.load_state_dict(saved[0])\n{}"
    "run(net, optimizer, scheduler, 6)\n"
)
ADAM, SGD = "Adam(net.parameters(), lr=0.05)", "SGD(net.parameters(), lr=0.05, momentum=0.9)"
WARM_UP = "LambdaLR(optimizer, lambda s: min(1, (s + 1) / 5) * (1 - s / 25))"
COSINE = "CosineAnnealingLR(optimizer, T_max=20)"
LOADED = "optimizer.load_state_dict(saved[1])  # HERE\n"
RESTORED = LOADED + "scheduler.load_state_dict(saved[2])\n"
COUNTED = LOADED + "for _ in range(14):\n    scheduler.step()\n"
# A second training with a schedule of its own, from the rate with which the first one ended.
MADE_BEHIND = LOADED + "scheduler = lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)\n"
ONLY_WEIGHTS = ""


@pytest.mark.parametrize(("optimizer", "schedule"), [(ADAM, WARM_UP), (SGD, COSINE)])
def test_a_schedule_that_is_not_restored_is_told(tmp_path: Path, optimizer: str, schedule: str) -> None:
    assert_first_alarm(RESUMED.format(optimizer, schedule, LOADED), "schedule_not_resumed", tmp_path)
    assert not alarms(RESUMED.format(optimizer, schedule, RESTORED), tmp_path)


@pytest.mark.parametrize("lines", [COUNTED, MADE_BEHIND, ONLY_WEIGHTS])
def test_a_schedule_that_counts_on_or_is_meant_to_begin_is_quiet(tmp_path: Path, lines: str) -> None:
    found = alarms(RESUMED.format(SGD, WARM_UP, lines), tmp_path)
    assert "schedule_not_resumed" not in [each.cause for each in found]
