"""Loops that sample by gradients of an input: long ones, of which the log keeps only the first rounds under no_grad."""

from __future__ import annotations

from pathlib import Path

from tests.integration.rules.checked_scripts import HEAD, alarms

LANGEVIN = (
    HEAD
    + """
energy = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(energy.parameters(), lr=1e-3)
def langevin(start):
    x = torch.randn_like(start).requires_grad_(True)
    for _ in range(10):
        if x.grad is not None:
            x.grad.zero_()
        energy(x).sum().backward()
        with torch.no_grad():
            x -= 0.1 * x.grad.clamp(-1, 1)
            x += 0.05 * torch.randn_like(x)
    return x.detach()
for step in range(40):
    real = torch.randn(32, 2) * 0.1 + 1
    fake = langevin(real)
    optimizer.zero_grad()
    e_real, e_fake = energy(real), energy(fake)
    loss = e_real.mean() - e_fake.mean() + 0.1 * (e_real**2 + e_fake**2).mean()
    loss.backward()
    optimizer.step()
"""
)


def test_gradients_of_parameters_that_a_long_sampling_loop_leaves_may_be_cleared(tmp_path: Path) -> None:
    assert not alarms(LANGEVIN, tmp_path)
