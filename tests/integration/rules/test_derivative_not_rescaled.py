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


SIZES = """
net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
clusters = [torch.randn(int(torch.randint(2, 6, ())), 3) for _ in range(40)]
labels = []
for cluster in clusters:
    leaf = cluster.clone().requires_grad_()
    whole = leaf.square().sum() + leaf.sin().sum()
    labels.append((whole.detach(), -torch.autograd.grad(whole, leaf)[0]))
for step in range(4):
    chosen = torch.randint(0, 40, (8,)).tolist()
    size = torch.tensor([len(clusters[i]) for i in chosen])
    owner = torch.repeat_interleave(torch.arange(8), size)
    energies, forces = torch.stack([labels[i][0] for i in chosen]), torch.cat([labels[i][1] for i in chosen])
    x = torch.cat([clusters[i] for i in chosen]).requires_grad_()
    whole = torch.zeros(8).index_add(0, owner, net(x).squeeze(-1))
    BODY
"""
BY_SIZE = {
    "each atom": """made = whole / size
    slope = torch.autograd.grad(made.sum(), x, create_graph=True)[0]  # HERE
    loss = F.mse_loss(made, energies / size) + F.mse_loss(-slope, forces)""",
    "other shapes": """made = (whole / size.float()).unsqueeze(1)
    slope = torch.autograd.grad(made, x, torch.ones_like(made), create_graph=True)[0]  # HERE
    loss = (made - (energies / size)[:, None]).square().mean() + (-slope - forces).square().mean()""",
}
BY_NO_SIZE = {
    "the total": """slope = torch.autograd.grad(whole.sum(), x, create_graph=True)[0]
    loss = F.mse_loss(whole / size, energies / size) + F.mse_loss(-slope, forces)""",
    "multiplied again": """made = whole / size
    slope = torch.autograd.grad((made * size).sum(), x, create_graph=True)[0]
    loss = F.mse_loss(made, energies / size) + F.mse_loss(-slope, forces)""",
    "multiplied behind": """made = whole / size
    slope = torch.autograd.grad(made.sum(), x, create_graph=True)[0] * size[owner][:, None]
    loss = F.mse_loss(made, energies / size) + F.mse_loss(-slope, forces)""",
    "forces of each atom": """made = whole / size
    slope = torch.autograd.grad(made.sum(), x, create_graph=True)[0]
    loss = F.mse_loss(made, energies / size) + F.mse_loss(-slope, forces / size[owner][:, None])""",
    "no target is divided": """made = whole / size
    slope = torch.autograd.grad(made.sum(), x, create_graph=True)[0]
    loss = F.mse_loss(made, energies) + F.mse_loss(-slope, forces)""",
}


@pytest.mark.parametrize("name", BY_SIZE)
def test_derivatives_of_what_a_size_divided_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + SIZES.replace("BODY", BY_SIZE[name]) + TRAIN, "derivative_not_rescaled", tmp_path)


@pytest.mark.parametrize("name", BY_NO_SIZE)
def test_derivatives_and_targets_of_the_same_size_are_right(name: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + SIZES.replace("BODY", BY_NO_SIZE[name]) + TRAIN, tmp_path)
