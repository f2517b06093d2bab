"""Programs that change their parameters themselves, without an optimizer: what is told of them all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

RESIDUAL = """
net, rate = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)), 0.01
for step in range(6):
    t = torch.rand(32, 1, requires_grad=True)
    x = 1 + t**2 * net(t)
    (dx,) = torch.autograd.grad(x.sum(), t, create_graph=True)
    (ddx,) = torch.autograd.grad(dx.sum(), t, KEEPS)  # HERE
    loss = (ddx + 0.6 * dx + 4 * x).square().mean()
    net.zero_grad()
    loss.backward()
    MOVES
"""
MOVES = {
    "in place": "with torch.no_grad():\n        for p in net.parameters():\n            p -= rate * p.grad",
    "through data": "for p in net.parameters():\n        p.data = p.data - rate * p.grad",
    "a copy": "with torch.no_grad():\n        for p in net.parameters():\n            p.copy_(p - rate * p.grad)",
    "a list": "with torch.no_grad():\n        parameters = list(net.parameters())\n"
    "        torch._foreach_add_(parameters, [p.grad for p in parameters], alpha=-rate)",
}


@pytest.mark.parametrize("moves", MOVES)
def test_a_residual_without_second_derivatives_is_told(moves: str, tmp_path: Path) -> None:
    script = HEAD + RESIDUAL.replace("MOVES", MOVES[moves])
    assert_first_alarm(script.replace("KEEPS", "retain_graph=True"), "create_graph_missing", tmp_path)
    assert not alarms(script.replace("KEEPS", "create_graph=True"), tmp_path)
