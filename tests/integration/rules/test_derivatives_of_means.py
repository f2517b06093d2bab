"""Derivatives at each sample that are those of the mean of all samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms

NETWORK = """
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    x, y = torch.rand(12, 2).requires_grad_(), torch.randn(12, 2)
    t, z = torch.rand(12, 1).requires_grad_(), torch.rand(12, 1).requires_grad_()
    u = net({given})
    {loss}
"""


def grad(root: str, by: str) -> str:
    return f"torch.autograd.grad({root}, {by}, create_graph=True)[0]"


PAIR = "torch.cat([t, z], dim=1)"
FAULTY = (
    ("x", f"g = {grad('u.mean()', 'x')}  # HERE\n    loss = (g.norm(2, dim=1) - 1).pow(2).mean() + u.square().mean()"),
    (
        "x",
        f"g = {grad('torch.mean(u)', 'x')}  # HERE\n    length = g.view(12, -1).pow(2).sum(1).add(1e-12).sqrt()\n"
        "    loss = F.relu(length - 1).square().mean() - u.mean()",
    ),
    # A differential equation: the derivative and the value.
    (
        "z",
        f"u_z = {grad('u.mean()', 'z')}  # HERE\n    start = net(torch.zeros(1, 1)) - 1\n"
        "    loss = torch.mean((u_z + u) ** 2) + start.square().sum()",
    ),
    # The heat equation: the second derivative was divided twice.
    (
        PAIR,
        f"u_t = {grad('u.mean()', 't')}\n    u_z = {grad('u.mean()', 'z')}\n    u_zz = {grad('u_z.mean()', 'z')}\n"
        "    loss = (u_t - 0.1 * u_zz).square().mean()",
    ),
    (
        PAIR,
        f"u_t = {grad('u.sum()', 't')}\n    u_z = {grad('u.mean()', 'z')}  # HERE\n"
        "    residual = u_t + u * u_z\n    loss = (residual ** 2).mean()",
    ),
    # Forces and their targets.
    ("x", f"force = -{grad('u.mean()', 'x')}  # HERE\n    loss = F.mse_loss(force, y)"),
    ("x", f"g = {grad('u.sum() / 12', 'x')}  # HERE\n    loss = F.l1_loss(g.norm(dim=1), torch.ones(12))"),
)
HEALTHY = (
    ("x", f"g = {grad('u.sum()', 'x')}\n    loss = (g.norm(2, dim=1) - 1).pow(2).mean() + u.square().mean()"),
    ("x", f"g = 12 * {grad('u.mean()', 'x')}\n    loss = (g.norm(2, dim=1) - 1).pow(2).mean() + u.square().mean()"),
    ("x", f"g = {grad('u.mean()', 'x')} * len(x)\n    loss = F.mse_loss(-g, y)"),
    # A weight of the penalty may be meant to have this factor.
    ("x", f"g = {grad('u.mean()', 'x')}\n    loss = F.softplus(u).mean() + 5 * g.square().sum(1).mean()"),
    # Only the direction counts.
    (
        "x",
        f"g = {grad('u.mean()', 'x')}\n    moved = x + 0.1 * g / g.norm(dim=1, keepdim=True)\n"
        "    loss = (net(moved) - u).square().mean()",
    ),
    # All terms have the same factor.
    (
        PAIR,
        f"u_t = {grad('u.mean()', 't')}\n    u_z = {grad('u.mean()', 'z')}\n"
        "    loss = F.mse_loss(u_t + u * u_z, torch.zeros(12, 1)) + u.square().mean()",
    ),
    # The energy of the whole is the mean, which has a target of its own.
    ("x", f"energy = u.mean()\n    force = -{grad('energy', 'x')}\n    loss = F.mse_loss(force, y) + (energy - 2)**2"),
    # A step of the input, whose length is another setting.
    (
        "x",
        f"moved = x - 0.5 * {grad('u.mean()', 'x')}\n    loss = (moved - y).square().mean()",
    ),
)  # fmt: skip


def script_of(given: str, loss: str) -> str:
    text = NETWORK.format(given=given, loss=loss)
    return HEAD + (text.replace("Linear(2", "Linear(1") if given == "z" else text) + TRAIN


@pytest.mark.parametrize(("given", "loss"), FAULTY)
def test_derivatives_of_means_are_told(given: str, loss: str, tmp_path: Path) -> None:
    script = script_of(given, loss)
    here = [number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE")]
    found = [each for each in alarms(script, tmp_path) if each.cause == "derivative_of_mean"]
    assert len(found) == 1
    assert not here or [each.location and each.location.line for each in found] == here


@pytest.mark.parametrize(("given", "loss"), HEALTHY)
def test_derivatives_of_each_and_mere_weights_are_left_alone(given: str, loss: str, tmp_path: Path) -> None:
    assert "derivative_of_mean" not in [each.cause for each in alarms(script_of(given, loss), tmp_path)]
