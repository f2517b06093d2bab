"""Averages of trained weights, however a program writes them: their two factors swapped, and right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

AVERAGED = (
    HEAD
    + """
model, decay = nn.Linear(4, 2), 0.98
params = list(model.parameters())
optimizer = torch.optim.SGD(params, lr=0.1)
shadow = {start}
for step in range(4):
    loss = model(torch.randn(8, 4)).square().mean()
"""
    + TRAIN
)
COPIES = "[p.detach().clone() for p in params]"
ZEROS = "[torch.zeros_like(p) for p in params]"
BY_NAME = "{k: v.detach().clone() for k, v in model.state_dict().items()}"
PAIRS = "    with torch.no_grad():\n        for s, p in zip(shadow, params):\n            "
LISTS = "    with torch.no_grad():\n        "
SWAPPED = {
    "on lists": (COPIES, LISTS + "torch._foreach_lerp_(shadow, params, decay)  # HERE"),
    "on lists in two calls": (
        COPIES,
        LISTS + "torch._foreach_mul_(shadow, 1 - decay)\n"
        "        torch._foreach_add_(shadow, params, alpha=decay)  # HERE",
    ),
    "of plain tensors by name": (
        BY_NAME,
        "    for k, v in model.state_dict().items():\n        shadow[k].mul_(1 - decay).add_(v, alpha=decay)  # HERE",
    ),
    "with new tensors": (
        BY_NAME,
        "    for k, v in model.named_parameters():\n"
        "        shadow[k] = (1 - decay) * shadow[k] + decay * v.detach()  # HERE",
    ),
    "a part of the difference": (COPIES, PAIRS + "s += decay * (p - s)  # HERE"),
    "a part of the difference that is subtracted": (COPIES, PAIRS + "s.sub_((s - p) * decay)  # HERE"),
}
WARM = "    d = min(decay, (1 + 10 * step) / (2 + 10 * step))\n"
SWAPPED |= {
    "with a warm-up": (COPIES, WARM + PAIRS + "s.lerp_(p, d)  # HERE"),
    "with a warm-up, in two calls": (COPIES, WARM + PAIRS + "s.mul_(1 - d).add_(p, alpha=d)  # HERE"),
}
UNEQUAL = {
    "both small": (COPIES, PAIRS + "s.mul_(1 - decay).add_(p, alpha=1 - decay)  # HERE"),
    "both large": (COPIES, LISTS + "torch._foreach_mul_(shadow, decay)\n"
                   "        torch._foreach_add_(shadow, params, alpha=decay)  # HERE"),
    "new tensors": (
        BY_NAME,
        "    for k, v in model.named_parameters():\n"
        "        shadow[k] = decay * shadow[k] + 0.2 * v.detach()  # HERE",
    ),
    "through data": (COPIES, PAIRS + "s.data = s.data * 0.9 + 0.01 * p.data  # HERE"),
}  # fmt: skip
RIGHT = {
    "on lists": (COPIES, LISTS + "torch._foreach_lerp_(shadow, params, 1 - decay)"),
    "with a warm-up": (COPIES, WARM + PAIRS + "s.lerp_(p, 1 - d)"),
    "shares that grow to a half": (COPIES, PAIRS + "s.lerp_(p, 0.2 + 0.1 * step)"),
    "a copy at the end": (COPIES, PAIRS + "s.lerp_(p, (0.5, 0.5, 0.5, 0.95)[step])"),
    "copies of the last step": (COPIES, LISTS + "torch._foreach_copy_(shadow, params)"),
    "the mean of all steps": (ZEROS, PAIRS + "s.add_((p - s) / (step + 1))"),
    "of gradients": (ZEROS, LISTS + "torch._foreach_lerp_(shadow, [p.grad for p in params], 0.95)"),
    "sums that are divided later": (
        ZEROS,
        PAIRS + "s.mul_(decay).add_(p)\nmean = [s / sum(decay**k for k in range(4)) for s in shadow]",
    ),
    "a sum of all steps": (ZEROS, PAIRS + "s.add_(p, alpha=0.25)"),
    "momentum of the way": (
        "[p.detach().clone() for p in params], [torch.zeros_like(p) for p in params]",
        "    with torch.no_grad():\n        for p, old, way in zip(params, *shadow):\n"
        "            way.mul_(0.9).add_(p - old, alpha=0.3)\n            old.copy_(p)",
    ),
    "an extrapolation": (COPIES, PAIRS + "s.copy_(2 * p - s)"),
}
PULLED = """
student = nn.Linear(4, 2)
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    loss = (student(x) - teacher(x + 0.1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        pairs = list(student.parameters()), list(teacher.parameters())
        {}  # HERE
"""


@pytest.mark.parametrize("name", SWAPPED)
def test_an_average_with_swapped_factors_is_told(name: str, tmp_path: Path) -> None:
    start, update = SWAPPED[name]
    assert_first_alarm(AVERAGED.replace("{start}", start) + update, "average_wrong_way", tmp_path)


@pytest.mark.parametrize("name", UNEQUAL)
def test_an_average_whose_factors_are_not_one_together_is_told(name: str, tmp_path: Path) -> None:
    start, update = UNEQUAL[name]
    assert_first_alarm(AVERAGED.replace("{start}", start) + update, "average_wrong_way", tmp_path)


def test_the_share_is_named_that_lerp_should_get(tmp_path: Path) -> None:
    start, update = SWAPPED["on lists"]
    (found,) = alarms(AVERAGED.replace("{start}", start) + update, tmp_path)
    assert "average.lerp_(trained, 0.02)" in found.fix


@pytest.mark.parametrize("name", RIGHT)
def test_an_average_that_follows_slowly_is_right(name: str, tmp_path: Path) -> None:
    start, update = RIGHT[name]
    assert not alarms(AVERAGED.replace("{start}", start) + update, tmp_path)


@pytest.mark.parametrize("update", ["torch._foreach_lerp_(*pairs, 0.1)", "for s, t in zip(*pairs): s -= 0.1 * (s - t)"])
def test_a_model_that_is_pulled_to_its_teacher_is_told(update: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + PULLED.format(update), "average_wrong_way", tmp_path)


SYNC = """
import copy
import torch
from torch import nn
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
target = copy.deepcopy(network)
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for step in range(40):
    state, following, reward = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16)
    with torch.no_grad():
        wanted = reward + 0.9 * target(following).amax(1)
    loss = nn.functional.smooth_l1_loss(network(state)[:, 0], wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        SYNC
"""
BACK = "network.load_state_dict(target.state_dict())"


@pytest.mark.parametrize(
    "sync",
    [
        BACK,
        "[p.data.copy_(t.data) for p, t in zip(network.parameters(), target.parameters())]",
        "for p, t in zip(network.parameters(), target.parameters()): p.data.copy_(t)",
    ],
)
def test_a_trained_model_that_is_set_back_to_its_target_is_told(sync: str, tmp_path: Path) -> None:
    assert_first_alarm(SYNC.replace("SYNC", f"{sync}  # HERE"), "average_wrong_way", tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        SYNC.replace("SYNC", "target.load_state_dict(network.state_dict())"),
        SYNC.replace("SYNC", "target.load_state_dict(network.state_dict())\n        " + BACK),
        SYNC.replace("step % 10 == 9", "step == 0").replace(
            "SYNC", BACK + "; target.load_state_dict(network.state_dict())"
        ),
    ],
)
def test_a_target_that_follows_raises_no_alarm(script: str, tmp_path: Path) -> None:
    assert [each for each in alarms(script, tmp_path) if each.cause == "average_wrong_way"] == []
