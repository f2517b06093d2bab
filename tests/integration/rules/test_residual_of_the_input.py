"""Residual quantizers: what each stage chooses its code for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

CODEC = """
class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(8, 4)
    def forward(self, x):
        {choose}
        code = self.table(index)
        loss = F.mse_loss(code, x.detach()) + 0.25 * F.mse_loss(x, code.detach())
        return x + (code - x).detach(), loss
encoder, decoder = nn.Linear(6, 4), nn.Linear(4, 6)
stages = nn.ModuleList(Stage() for _ in range({n}))
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *stages.parameters()], lr=0.01)
for step in range(3):
    data = torch.randn(16, 6)
    z = encoder(data)
    left, total, commit = z, torch.zeros_like(z), 0.0
    for stage in stages:
        code, extra = stage(left)
        commit = commit + extra
        total = total + code
        {rest}
    z_q = z + (total - z).detach()
    loss = F.mse_loss(decoder(z_q), data) + commit"""
NEAREST = "index = torch.cdist(x.detach(), self.table.weight.detach()).argmin(-1)"
BY_HAND = """d = x.pow(2).sum(1, keepdim=True) - 2 * x @ self.table.weight.T + self.table.weight.pow(2).sum(1)
        index = d.min(dim=1).indices"""
FAULTY = (
    CODEC.format(choose=NEAREST, n=3, rest="left = z - code.detach()  # HERE"),
    CODEC.format(choose=BY_HAND, n=4, rest="left = torch.sub(z, code)  # HERE"),
    CODEC.format(choose=NEAREST, n=3, rest="left = z.clone().sub_(code.detach())  # HERE"),
)
HEALTHY = (
    CODEC.format(choose=NEAREST, n=3, rest="left = left - code.detach()"),
    CODEC.format(choose=BY_HAND, n=3, rest="left = left.sub(code).detach()"),
    CODEC.format(choose=NEAREST, n=4, rest="left = z - total.detach()"),
    CODEC.format(choose=NEAREST, n=2, rest="left = z - code.detach()"),  # of two stages, nobody reads the second rest
)


@pytest.mark.parametrize("script", FAULTY)
def test_a_code_that_is_subtracted_from_the_input_is_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script + TRAIN, "residual_of_the_input", tmp_path)


@pytest.mark.parametrize("script", HEALTHY)
def test_a_code_that_is_subtracted_from_the_rest_is_right(script: str, tmp_path: Path) -> None:
    assert "residual_of_the_input" not in {each.cause for each in alarms(HEAD + script + TRAIN, tmp_path)}
