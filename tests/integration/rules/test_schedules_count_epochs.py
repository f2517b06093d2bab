"""Schedules whose figures count epochs, stepped at each batch; and those that are meant for batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

LOOPS = (
    HEAD
    + """
x = torch.randn(160, 8)
y = (x[:, :1] > x[:, 1:2]).float()
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
epochs, size = 8, 16
batches = len(x) // size
schedule = torch.optim.lr_scheduler.{schedule}
for epoch in range(epochs):
    for rows in torch.randperm(160).split(16):
        loss = F.binary_cross_entropy_with_logits(net(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {batch}
    {epoch}
"""
)
STEP = "schedule.step()"
IN_A_FUNCTION = """
x = torch.randn(160, 8)
y = (x[:, :1] > x[:, 1:2]).float()
net = nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.3)

def fit():
    for rows in torch.randperm(160).split(16):
        loss = F.binary_cross_entropy_with_logits(net(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()  # HERE

for epoch in range(8):
    fit()
"""


@pytest.mark.parametrize(
    "schedule",
    [
        "MultiStepLR(optimizer, [4, 6], gamma=0.1)",
        "StepLR(optimizer, 3, gamma=0.5)",
        "ExponentialLR(optimizer, 0.85)",
        "LinearLR(optimizer, 1.0, 0.05, total_iters=8)",
        "MultiStepLR(optimizer, [epochs // 2, epochs * 3 // 4], gamma=0.1)",
    ],
)
def test_a_schedule_of_epochs_at_each_batch_is_told(schedule: str, tmp_path: Path) -> None:
    script = LOOPS.format(schedule=schedule, batch=STEP + "  # HERE", epoch="pass")
    assert_first_alarm(script, "schedule_counts_epochs", tmp_path)


def test_it_is_told_in_a_function_for_one_epoch(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + IN_A_FUNCTION, "schedule_counts_epochs", tmp_path)


@pytest.mark.parametrize(
    ("schedule", "batch", "epoch"),
    [
        ("MultiStepLR(optimizer, [4, 6], gamma=0.1)", "pass", STEP),
        ("MultiStepLR(optimizer, [40, 60], gamma=0.1)", STEP, "pass"),
        ("StepLR(optimizer, 20, gamma=0.5)", STEP, "pass"),
        ("ExponentialLR(optimizer, 0.98)", STEP, "pass"),
        ("LinearLR(optimizer, 1.0, 0.05, total_iters=80)", STEP, "pass"),
        ("LinearLR(optimizer, 0.1, 1.0, total_iters=8)", STEP, "pass"),
        ("MultiStepLR(optimizer, [batches // 2, batches], gamma=0.3)", STEP, "pass"),
        ("LinearLR(optimizer, 1.0, 0.05, total_iters=160 // 16)", STEP, "pass"),
        ("ExponentialLR(optimizer, (1e-6 / 0.01) ** (1 / (epochs * batches)))", STEP, "pass"),
    ],
)
def test_schedules_that_last_are_right(schedule: str, batch: str, epoch: str, tmp_path: Path) -> None:
    assert not alarms(LOOPS.format(schedule=schedule, batch=batch, epoch=epoch), tmp_path)
