"""Clips by hand: the bound over the norm, and the norm over the bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

BEGIN = (
    HEAD
    + """
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
params, bound = list(model.parameters()), 30.0
for step in range(6):
    optimizer.zero_grad()
    F.mse_loss(model(torch.randn(16, 4)), 3 * torch.randn(16, 2)).backward()
    grads = [p.grad for p in params]
    norm = torch.stack([g.norm() for g in grads]).norm()
"""
)
END = "    optimizer.step()\n"
EACH = "    for g in grads:\n        g.mul_(factor)\n"
FAULTY = {
    "clamped": "    factor = (norm / bound).clamp(max=1)  # HERE\n" + EACH,
    "the smaller of two": "    factor = torch.minimum(norm / bound, torch.ones(()))  # HERE\n" + EACH,
    "of lists": "    factor = torch.clamp(norm / bound, max=1.0)  # HERE\n    torch._foreach_mul_(grads, factor)\n",
    "of squares": "    norm = torch.sqrt(sum(g.square().sum() for g in grads))\n"
    "    factor = torch.clamp(norm.div(bound), max=1.0)  # HERE\n" + EACH,
    "a number": "    factor = min(1.0, norm.item() / bound)  # HERE\n" + EACH,
    "divided by the bound over the norm": "    factor = (bound / norm).clamp(min=1)  # HERE\n"
    "    for g in grads:\n        g.div_(factor)\n",
    "of each sample": "    for x in torch.randn(3, 4):\n"
    "        own = torch.autograd.grad(model(x).square().sum(), params)\n"
    "        factor = (torch.cat([g.flatten() for g in own]).norm() / bound).clamp(max=1)  # HERE\n"
    "        for p, g in zip(params, own):\n            p.grad += g * factor\n",
}
HEALTHY = {
    "clamped": "    factor = (bound / (norm + 1e-6)).clamp(max=1)\n" + EACH,
    "the smaller of two": "    factor = torch.minimum(bound / norm, torch.ones(()))\n" + EACH,
    "a number": "    factor = min(1.0, 0.1 / (norm.item() + 1e-6))\n" + EACH,
    "divided": "    factor = (norm / bound).clamp(min=1)\n    for g in grads:\n        g.div_(factor)\n",
    "divided by a number": "    factor = max(1.0, norm.item() / 0.1)\n    for g in grads:\n        g.div_(factor)\n",
    "a share of the weights": "    factor = (sum(p.detach().norm() for p in params) / norm).clamp(max=1)\n" + EACH,
    "torch's own": "    nn.utils.clip_grad_norm_(params, 0.5)\n",
    "a number that falls": "    factor = 1.0 / (1 + step)\n" + EACH,
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_factor_that_is_upside_down_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(BEGIN + FAULTY[name] + END, "clip_misplaced", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_clips_by_hand_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(BEGIN + HEALTHY[name] + END, tmp_path)
