"""Averages of trained weights that nothing reads: slow weights that stay apart, averages that are overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

TRAINED = (
    HEAD
    + """
model, x, y = nn.Linear(4, 2), torch.randn(64, 4), torch.randn(64, 2)
params = list(model.parameters())
optimizer = torch.optim.SGD(params, lr=0.1)
shadow = [p.detach().clone() for p in params]
other = copy.deepcopy(model)
for step in range(9):
    loss = F.mse_loss(model(x), y)
"""
    + TRAIN
)
SLOW = "    if step % 3 == 2:\n        with torch.no_grad():\n"
EACH = "            for s, p in zip(shadow, params):\n                "
AVERAGE = "    with torch.no_grad():\n        torch._foreach_lerp_(shadow, params, 0.1)\n"
END = "with torch.no_grad():\n    for s, p in zip(shadow, params):\n        {}\n    print(F.mse_loss(model(x), y))\n"
FAULTY = {
    "a part of the difference": SLOW + EACH + "s.add_(p - s, alpha=0.5)  # HERE",
    "with lerp": SLOW + EACH + "s.lerp_(p, 0.8)  # HERE",
    "of lists": SLOW + "            torch._foreach_lerp_(shadow, params, 0.5)  # HERE",
    "of another model": SLOW
    + "            for s, p in zip(other.parameters(), params):\n                s.copy_(0.5 * s + 0.5 * p)  # HERE",
    "through data": SLOW + EACH + "s.data = s.data + 0.5 * (p.data - s.data)  # HERE",
    "overwritten": AVERAGE + END.format("s.copy_(p)  # HERE"),
    "overwritten through data": AVERAGE + END.format("s.data.copy_(p.data)  # HERE"),
}
HEALTHY = {
    "copied back": SLOW + EACH + "s.add_(p - s, alpha=0.5)\n                p.copy_(s)",
    "copied back through data": SLOW + EACH + "s.lerp_(p, 0.5)\n                p.data = s.clone()",
    "copied back as lists": SLOW + "            torch._foreach_lerp_(shadow, params, 0.5)\n"
    "            torch._foreach_copy_(params, shadow)",
    "a target": SLOW
    + "            for s, p in zip(other.parameters(), params):\n                s.lerp_(p, 0.5)\n"
    "            print(other(x).mean())",
    "averages that are kept": AVERAGE,
    "averages that are saved": AVERAGE.replace("torch.no_grad():\n", "torch.no_grad():\n        ", 1)
    + "def save(): torch.save(shadow, '/dev/null')\nsave()\n" + END.format("s.copy_(p)"),
    "swapped": AVERAGE + END.format("kept = p.clone(); p.copy_(s); s.copy_(kept)"),
    "measured before": AVERAGE + "print(sum(s.norm() for s in shadow))\n" + END.format("s.copy_(p)"),
    "begun again": AVERAGE + "        if step == 4:\n            torch._foreach_copy_(shadow, params)\n",
    "the mean of some steps": SLOW + EACH + "s.add_((p - s) / (step // 3 + 1))",
}  # fmt: skip

MOMENTUM = (
    HEAD
    + """
model, x, y = nn.Linear(4, 2), torch.randn(64, 4), torch.randn(64, 2)
params = list(model.parameters())
speeds = [torch.zeros_like(p) for p in params]
for step in range(5):
    grads = list(torch.autograd.grad(F.mse_loss(model(x), y), params))
    with torch.no_grad():
        {}
"""
)
ALL = "for p, g, v in zip(params, grads, speeds):\n            "
LEFT = {
    "in place": ALL + "v.mul_(0.9).add_(g)\n            p.sub_(g, alpha=0.1)  # HERE",
    "with lerp": ALL + "v.lerp_(g, 0.1)\n            p -= 0.1 * g  # HERE",
    "of lists": "torch._foreach_mul_(speeds, 0.9)\n        torch._foreach_add_(speeds, grads)\n"
    "        torch._foreach_sub_(params, grads, alpha=0.1)  # HERE",
}
USED = {
    "in place": ALL + "v.mul_(0.9).add_(g)\n            p.sub_(v, alpha=0.1)",
    "that is looked ahead": ALL + "v.mul_(0.9).add_(g)\n            p.sub_(g + 0.9 * v, alpha=0.1)",
    "of lists": "torch._foreach_lerp_(speeds, grads, 0.1)\n        torch._foreach_sub_(params, speeds, alpha=0.1)",
    "that is printed": ALL + "v.lerp_(g, 0.1)\n            p -= 0.1 * g\n            print(v.norm())",
    "a sum of all": ALL + "v.add_(g)\n            p -= 0.1 * g",
}


@pytest.mark.parametrize("name", LEFT)
def test_momentum_that_no_step_uses_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MOMENTUM.format(LEFT[name]), "average_never_read", tmp_path)


@pytest.mark.parametrize("name", USED)
def test_averages_of_gradients_that_are_used_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MOMENTUM.format(USED[name]), tmp_path)


@pytest.mark.parametrize("name", FAULTY)
def test_an_average_that_nothing_reads_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(TRAINED + FAULTY[name], "average_never_read", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_averages_that_are_read_or_kept_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(TRAINED + HEALTHY[name], tmp_path)
