"""Derivatives by tensors that a result was not computed from, for which zeros go into the loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

CAUSE = "unused_parameter"
MATERIALIZED = "allow_unused=True, materialize_grads=True)"
FORCES = f"""{HEAD}
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
places, pulls = torch.randn(32, 4, 3), torch.randn(32, 4, 3)
i, j = torch.triu_indices(4, 4, 1)
def lengths(pos):
    return (pos[:, i] - pos[:, j]).norm(dim=-1)
stored = lengths(places)
energies = stored.square().sum(1)
for step in range(6):
    rows = torch.randperm(32)[:8]
    pos = places[rows].requires_grad_()
    energy = net(stored[rows]).squeeze(1)
    grad, = torch.autograd.grad(energy.sum(), pos, create_graph=True, {MATERIALIZED}  # HERE
    loss = F.mse_loss(energy, energies[rows]) + F.mse_loss(-grad, pulls[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FILLED = FORCES.replace(", materialize_grads=True", "").replace(
    "    loss =", "    grad = torch.zeros_like(pos) if grad is None else grad\n    loss ="
)
COPIED = FORCES.replace(
    "net(stored[rows]).squeeze(1)", "net(lengths(pos)).squeeze(1)\n    pos = pos + 0  # HERE"
).replace("materialize_grads=True)  # HERE", "materialize_grads=True)")
SEVERAL = FORCES.replace(
    "grad, = torch.autograd.grad(energy.sum(), pos,",
    "_, grad = torch.autograd.grad(energy.sum(), [net[0].weight, pos],",
)
SOMETIMES = FORCES.replace("net(stored[rows])", "net(lengths(pos) if step % 2 else stored[rows])")
IN_TURN = FORCES.replace(
    f"    grad, = torch.autograd.grad(energy.sum(), pos, create_graph=True, {MATERIALIZED}  # HERE",
    f"""    distances = stored[rows].requires_grad_()
    energy = net(distances).squeeze(1)
    grads = []
    for each in (pos, distances):
        grads += torch.autograd.grad(energy.sum(), each, create_graph=True, {MATERIALIZED}
    grad = grads[0] + grads[1].mean()""",
)
PRINTED = FORCES.replace("+ F.mse_loss(-grad, pulls[rows])", "\n    print(grad.norm())")
STRAIGHT = f"""{HEAD}
flow = nn.Linear(1, 1)
optimizer = torch.optim.SGD(flow.parameters(), 1e-2)
for step in range(6):
    x = torch.rand(16, 1, requires_grad=True)
    u = flow(x)
    slope, = torch.autograd.grad(u.sum(), x, create_graph=True)
    bend, = torch.autograd.grad(slope.sum(), x, create_graph=True, {MATERIALIZED}
    loss = F.mse_loss(u, 2 * x.detach() + 1) + bend.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
USED = FORCES.replace("net(stored[rows])", "net(lengths(pos))")


@pytest.mark.parametrize("script", [FORCES, FILLED, COPIED])
def test_zeros_that_go_into_a_loss_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, CAUSE, tmp_path)


@pytest.mark.parametrize("script", [USED, SEVERAL, SOMETIMES, IN_TURN, PRINTED, STRAIGHT])
def test_derivatives_that_are_sometimes_zero_or_only_read_are_left_alone(script: str, tmp_path: Path) -> None:
    assert CAUSE not in {each.cause for each in alarms(script, tmp_path)}
