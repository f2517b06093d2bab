"""Learning rates that something changes beside a schedule: whether the change lasts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

BEGIN = (
    HEAD
    + """
from torch.optim import lr_scheduler
def train(opt, schedule, change, steps=12):
    for step in range(steps):
        opt.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        opt.step()
        schedule.step()
        change(step)
def warm(step):
    return min(1.0, (step + 1) / 3)
def nothing(step):
    pass
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
"""
)
FAULTY = {
    "halved when the loss stalls": """
class Stalled:
    def __init__(self, opt):
        self.opt = opt
    def __call__(self, step):
        if step % 5 == 4:
            for group in self.opt.param_groups:
                group["lr"] = max(group["lr"] * 0.5, 1e-5)  # HERE
train(opt, lr_scheduler.LambdaLR(opt, warm), Stalled(opt))
""",
    "one cycle": """
def lower(step):
    if step == 6:
        for group in opt.param_groups:
            group["lr"] /= 3  # HERE
train(opt, lr_scheduler.OneCycleLR(opt, 0.1, total_steps=40), lower)
""",
    "two schedules": """
plateau = lr_scheduler.ReduceLROnPlateau(opt, factor=0.1, patience=0)  # HERE
train(opt, lr_scheduler.LambdaLR(opt, warm), lambda step: plateau.step(1.0 + step) if step % 4 == 0 else None)
""",
    "a schedule of steps beside a warm-up": """
steps = lr_scheduler.StepLR(opt, 5, gamma=0.1)  # HERE
train(opt, lr_scheduler.LambdaLR(opt, warm), lambda step: steps.step())
""",
}
HEALTHY = {
    "a warm-up by hand that scales what the schedule makes, after each of its steps": """
def warm_up(step):
    for group in opt.param_groups:
        group["lr"] *= min(1.0, (step + 2) / 6)
warm_up(-1)
train(opt, lr_scheduler.LambdaLR(opt, lambda step: 1 - step / 20), warm_up)
""",
    "a schedule that goes on from it": """
def lower(step):
    if step == 6:
        for group in opt.param_groups:
            group["lr"] *= 0.1
train(opt, lr_scheduler.ExponentialLR(opt, 0.99), lower)
""",
    "a schedule that falls as much": """
def lower(step):
    if step == 6:
        for group in opt.param_groups:
            group["lr"] *= 0.1
train(opt, lr_scheduler.StepLR(opt, 8, gamma=0.1), lower)
""",
    "a warm-up that is set at each of its steps": """
def warm_up(step):
    if step < 6:
        for group in opt.param_groups:
            group["lr"] = 0.1 * (step + 1) / 6
schedule = lr_scheduler.LambdaLR(opt, lambda epoch: 0.9**epoch)
for epoch in range(3):
    for step in range(4):
        warm_up(4 * epoch + step)
        train(opt, lr_scheduler.StepLR(opt, 100), nothing, steps=1)
    schedule.step()
""",
    "one after the other": """
first = lr_scheduler.LinearLR(opt, 0.1, total_iters=4)
then = lr_scheduler.CosineAnnealingLR(opt, 8)
train(opt, lr_scheduler.SequentialLR(opt, [first, then], milestones=[4]), nothing)
""",
    "both at each step": """
both = lr_scheduler.ChainedScheduler([lr_scheduler.LinearLR(opt, 0.1, total_iters=4), lr_scheduler.StepLR(opt, 6)])
train(opt, both, nothing)
""",
    "a plateau with a warm-up that has ended": """
warmup = lr_scheduler.LambdaLR(opt, warm)
plateau = lr_scheduler.ReduceLROnPlateau(opt, factor=0.1, patience=0)
class Either:
    def step(self):
        if warmup.last_epoch < 3:
            warmup.step()
        else:
            plateau.step(1.0)
train(opt, Either(), nothing)
""",
    "a plateau that is stepped after the warm-up, as it is advised": """
warmup = lr_scheduler.LambdaLR(opt, warm)
plateau = lr_scheduler.ReduceLROnPlateau(opt, factor=0.1, patience=0)
class Both:
    def step(self):
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps < 4:
            warmup.step()
        elif self.steps % 4 == 0:
            plateau.step(1.0 + self.steps)
train(opt, Both(), nothing)
""",
    "another optimizer steps in between": """
other = nn.Linear(4, 1)
second = torch.optim.SGD(other.parameters(), lr=0.1)
schedule = lr_scheduler.LambdaLR(opt, lambda step: 0.9**step)
for step in range(6):
    for mine, net in ((opt, model), (second, other)):
        mine.zero_grad()
        net(torch.randn(8, 4)).square().mean().backward()
        mine.step()
        if mine is opt:
            schedule.step()
    for group in second.param_groups:
        group["lr"] *= 0.99
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_change_that_is_lost_is_told_at_its_line(name: str, tmp_path: Path) -> None:
    assert_first_alarm(BEGIN + FAULTY[name], "changed_rate_lost", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_change_that_lasts_is_no_alarm(name: str, tmp_path: Path) -> None:
    assert not alarms(BEGIN + HEALTHY[name], tmp_path)
