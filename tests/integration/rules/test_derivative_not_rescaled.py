"""Energies in units of their deviation, and forces that are compared with their derivatives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FORCES = """
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
positions = torch.randn(64, 6)
energies, forces = 9 * torch.rand(64), torch.randn(64, 6)
mean, std = energies.mean(), energies.std()
{once}
for step in range(4):
    i = torch.randint(0, 64, (16,))
    x = positions[i].requires_grad_()
    made = net(x).squeeze(-1)
    slope = torch.autograd.grad({of}, x, create_graph=True)[0]
    {body}
"""
SUM = "made.sum()"
ONES = "made, x, torch.ones_like(made)"
FAULTY = (
    FORCES.format(once="", of=SUM, body="loss = F.mse_loss(made, (energies[i] - mean) / std)\n"
                  "    loss = loss + F.mse_loss(-slope, forces[i])  # HERE"),
    FORCES.format(once="targets, scale = (energies - mean).div(std), std.item()", of=SUM,
                  body="loss = (made - targets[i]).abs().mean()\n    f = slope.neg()\n"
                       "    loss = loss + (f - forces[i]).square().mean()  # HERE"),
    FORCES.format(once="scale = energies.std().item()\ntargets = (energies - 1.5) / scale", of=SUM,
                  body="loss = F.l1_loss(made, targets[i])\n    loss = loss + F.l1_loss(slope, -forces[i])  # HERE"),
    FORCES.format(once="", of=SUM, body="loss = F.mse_loss(made * std + mean, energies[i])\n"
                  "    loss = loss + F.mse_loss(-slope, forces[i])  # HERE"),
)  # fmt: skip
HEALTHY = (
    FORCES.format(once="", of=SUM, body="loss = F.mse_loss(made, (energies[i] - mean) / std)\n"
                  "    loss = loss + F.mse_loss(-slope, forces[i] / std)"),
    FORCES.format(once="wanted = forces / std", of=SUM,
                  body="loss = F.mse_loss(made, (energies[i] - mean) / std) + F.mse_loss(-slope, wanted[i])"),
    FORCES.format(once="", of=SUM, body="loss = F.mse_loss(made, (energies[i] - mean) / std)\n"
                  "    loss = loss + F.mse_loss(-slope * std, forces[i])"),
    FORCES.format(once="", of="(made * std).sum()",
                  body="loss = F.mse_loss(made * std + mean, energies[i]) + F.mse_loss(-slope, forces[i])"),
    # Energies of each atom; the mean alone; other units; a penalty of the slope.
    FORCES.format(once="", of=SUM, body="loss = F.mse_loss(made / 2, energies[i] / 2) + F.mse_loss(-slope, forces[i])"),
    FORCES.format(once="", of=SUM, body="loss = F.mse_loss(made, energies[i] - mean) + F.mse_loss(-slope, forces[i])"),
    FORCES.format(once="energies = energies * 27.2", of=SUM,
                  body="loss = F.mse_loss(made, energies[i]) + F.mse_loss(-slope, forces[i])"),
    FORCES.format(once="", of=SUM, body="loss = F.mse_loss(made, (energies[i] - mean) / std)\n"
                  "    loss = loss + (slope.norm(dim=1) - 1).square().mean()"),
)  # fmt: skip


@pytest.mark.parametrize("script", FAULTY)
def test_derivatives_in_other_units_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script + TRAIN, "derivative_not_rescaled", tmp_path)


@pytest.mark.parametrize("script", HEALTHY)
def test_derivatives_in_the_same_units_are_right(script: str, tmp_path: Path) -> None:
    assert "derivative_not_rescaled" not in {each.cause for each in alarms(HEAD + script + TRAIN, tmp_path)}
