"""Sharpness-aware steps that move parameters back by another amount than they added."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

BEGIN = (
    HEAD
    + """
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
params, rho = list(net.parameters()), 0.05
def norm():
    return torch.stack([p.grad.norm() for p in params]).norm()
for step in range(5):
    x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    old, size = [p.detach().clone() for p in params], norm()
    moves = [rho * p.grad / size for p in params]
    with torch.no_grad():
        {move}
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    with torch.no_grad():
        {back}
    optimizer.step()
"""
)
PAIRS = "for p, m, o in zip(params, moves, old): "
FAULTY = {
    "of the second gradient": (
        PAIRS + "p.add_(m)",
        "size = norm()\n        for p in params: p.sub_(rho * p.grad / size)",
    ),
    "of the second gradient over the first norm": (PAIRS + "p.add_(m)", PAIRS + "p.data.sub_(rho * p.grad / size)"),
    "without the norm": ("torch._foreach_add_(params, moves)", PAIRS + "p.sub_(rho * m)"),
    "as lists": (
        "torch._foreach_add_(params, moves)",
        "torch._foreach_sub_(params, torch._foreach_mul([p.grad for p in params], rho))",
    ),
    "half of it": (PAIRS + "p.data = p.data + m", PAIRS + "p.data = p.data - 0.5 * m"),
}  # fmt: skip
HEALTHY = {
    "what was added": (PAIRS + "p.add_(m)", PAIRS + "p.sub_(m)"),
    "what was added, as lists": ("torch._foreach_add_(params, moves)", "torch._foreach_sub_(params, moves)"),
    "the old values": (PAIRS + "p.add_(m)", PAIRS + "p.copy_(o)"),
    "the old values through data": (PAIRS + "p.data.add_(m)", PAIRS + "p.data.copy_(o)"),
    "the old values as data": (PAIRS + "p.add_(m)", PAIRS + "p.data = o"),
    "the old data": (PAIRS + "p.data = p.data + m", PAIRS + "p.data = o"),
    "and decayed": (PAIRS + "p.add_(m)", PAIRS + "p.sub_(m).mul_(0.99)"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_way_back_that_leads_elsewhere_is_told(name: str, tmp_path: Path) -> None:
    move, back = FAULTY[name]
    assert_first_alarm(BEGIN.format(move=move, back=back + "  # HERE"), "not_moved_back", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_ways_back_are_left_alone(name: str, tmp_path: Path) -> None:
    move, back = HEALTHY[name]
    assert not alarms(BEGIN.format(move=move, back=back), tmp_path)
