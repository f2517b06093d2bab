"""Residuals of equations: squared one by one, or only their mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
net = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def slope(u, x):
    return torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
for step in range(4):
    x, t = torch.rand(32, 1, requires_grad=True), torch.rand(32, 1, requires_grad=True)
    u = net(torch.cat([x, t], 1))
    u_t, u_x = slope(u, t), slope(u, x)
    residual = {residual}
    start = net(torch.cat([x.detach(), torch.zeros(32, 1)], 1))
    {loss}
    loss = loss + F.mse_loss(start, torch.sin(3 * x.detach()))
"""
    + TRAIN
)
HEAT, BURGERS = "u_t - 0.1 * slope(u_x, x)", "u_t + u * u_x - 0.01 * slope(u_x, x)"
CANCEL = {
    "a power": (HEAT, "loss = residual.mean() ** 2  # HERE"),
    "a square": (BURGERS, "loss = torch.square(torch.mean(residual))  # HERE"),
    "an absolute value": (HEAT, "loss = 10 * residual.mean().abs()  # HERE"),
    "a loss": (HEAT, "loss = F.mse_loss(residual.mean(), torch.tensor(0.0))  # HERE"),
}
MEANT = {
    "squares": (HEAT, "loss = (residual ** 2).mean()"),
    "a weak form": (HEAT, "loss = (residual * torch.sin(3.14 * x.detach())).mean() ** 2"),
    "a weak form, integrated by parts": ("u_t * (1 - x) - 0.1 * u", "loss = residual.mean() ** 2"),
    "the whole beside single points": (BURGERS, "loss = residual.square().mean() + residual.mean() ** 2"),
    "a mean that is given": ("u_t", "loss = (residual.mean() - 1) ** 2"),
    "a balance of the whole beside an equation of single points": (
        HEAT,
        "other = u_x - u\n    loss = other.square().mean() + residual.mean() ** 2",
    ),
    "a mean error that is printed": (
        HEAT,
        "loss = F.mse_loss(residual, torch.zeros_like(residual))\n    print((residual - 0).mean().abs())",
    ),
    "the mean of a network": ("u - x.detach()", "loss = 0.1 * u_x.square().mean() + (u.mean() - 1) ** 2"),
}


@pytest.mark.parametrize("name", CANCEL)
def test_the_square_of_a_mean_of_residuals_is_told(name: str, tmp_path: Path) -> None:
    residual, loss = CANCEL[name]
    assert_first_alarm(SCRIPT.format(residual=residual, loss=loss), "residuals_cancel", tmp_path)


@pytest.mark.parametrize("name", MEANT)
def test_squares_of_residuals_and_conditions_on_means_are_left_alone(name: str, tmp_path: Path) -> None:
    residual, loss = MEANT[name]
    found = alarms(SCRIPT.format(residual=residual, loss=loss), tmp_path)
    assert "residuals_cancel" not in {each.cause for each in found}
