"""Equations with derivatives by inputs that were scaled for the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
LENGTH, END, SPEED = 5.0, 2.0, 0.3
WEIGHT = SPEED * END / LENGTH**2
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def by(u, x):
    return torch.autograd.grad(u.sum(), x, create_graph=True)[0]
def residual(x, t):
    {scale}
    u_t, u_x = by(u, t), by(u, x)
    u_xx = by(u_x, x)
    return {equation}
for step in range(3):
    {points}
    loss = residual(x, t).square().mean()
"""
    + TRAIN
)
POINTS = "x, t = torch.rand(16, 1) * LENGTH, torch.rand(16, 1) * END"
APART = """x = (x / LENGTH).requires_grad_(True)  # HERE
    t = (t / END).requires_grad_(True)
    u = net(torch.cat([x, t], 1))"""
INSIDE = """x.requires_grad_(True), t.requires_grad_(True)
    u = net(torch.cat([x / LENGTH, t / END], 1))"""
HEAT = "u_t - SPEED * u_xx"
FAULTY = {
    "a first derivative": PROGRAM.format(scale=APART, equation=HEAT, points=POINTS),
    "to both sides of zero": PROGRAM.format(
        scale=APART.replace("(x / LENGTH)", "(2 * x / LENGTH - 1)"), equation=HEAT, points=POINTS
    ),
    "the solution itself": PROGRAM.format(scale=APART, equation="u_xx + u", points=POINTS),
    "both inputs in one tensor": HEAD
    + """
L, T, SPEED = 4.0, 2.0, 0.3
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def scaled(x, t):
    return torch.cat([x / L, t / T], 1)  # HERE
for step in range(3):
    z = scaled(torch.rand(16, 1) * L, torch.rand(16, 1) * T).requires_grad_(True)
    first = torch.autograd.grad(net(z).sum(), z, create_graph=True)[0]
    second = torch.autograd.grad(first[:, 0].sum(), z, create_graph=True)[0]
    loss = (first[:, 1] - SPEED * second[:, 0]).square().mean()
"""
    + TRAIN,
}
WITHOUT_UNITS = PROGRAM.replace(
    "LENGTH, END, SPEED = 5.0, 2.0, 0.3", "LENGTH, SPEED = 5.0, 0.3\nEND = LENGTH**2 / SPEED"
)
FAULTY["a time of the length, and a constant that is left"] = WITHOUT_UNITS.format(
    scale=APART, equation=HEAT, points=POINTS
)
HEALTHY = {
    "an equation without units": WITHOUT_UNITS.format(scale=APART, equation="u_t - u_xx", points=POINTS),
    "scaled behind the inputs": PROGRAM.format(scale=INSIDE, equation=HEAT, points=POINTS),
    "with the factors": PROGRAM.format(scale=APART, equation="u_t / END - SPEED * u_xx / LENGTH**2", points=POINTS),
    "with a factor that is computed before": PROGRAM.format(scale=APART, equation="u_t - WEIGHT * u_xx", points=POINTS),
    "with names for the factors": PROGRAM.replace(
        "WEIGHT =", "PER_LENGTH, PER_END = 1 / LENGTH, 1 / END\nWEIGHT ="
    ).format(
        scale=APART.replace("x / LENGTH", "x * PER_LENGTH").replace("t / END", "t * PER_END"),
        equation="u_t - WEIGHT * u_xx",
        points=POINTS,
    ),
    "points of a domain without units": PROGRAM.format(
        scale="x.requires_grad_(True), t.requires_grad_(True)\n    u = net(torch.cat([x, t], 1))",
        equation=HEAT,
        points="x, t = torch.rand(16, 1) * 2 - 1, torch.rand(16, 1)",
    ),
    "places of a grid": PROGRAM.format(
        scale=APART, equation=HEAT, points="x, t = torch.arange(6.0)[:, None], torch.rand(6, 1)"
    ),
    "a gradient of length one": PROGRAM.format(scale=APART, equation="(u_x**2 + u_t**2).sqrt() - 1", points=POINTS),
    "no second derivative in the loss": PROGRAM.format(scale=APART, equation="u_t + u_x", points=POINTS),
}


@pytest.mark.parametrize("name", FAULTY)
def test_derivatives_by_scaled_inputs_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTY[name], "derivative_by_scaled_input", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_derivatives_with_the_right_factors_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not [each for each in alarms(HEALTHY[name], tmp_path) if each.cause == "derivative_by_scaled_input"]
