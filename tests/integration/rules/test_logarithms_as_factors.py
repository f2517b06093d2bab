"""Scales that are learned as logarithms, and what takes them for the scales."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PAIRS = (
    HEAD
    + """
import math
one, other = nn.Linear(6, 4), nn.Linear(5, 4)
{made}
optimizer = torch.optim.Adam([*one.parameters(), *other.parameters(), scale], lr=0.01)
for step in range(4):
    z = torch.randn(16, 3)
    a, b = F.normalize(one(z.repeat(1, 2)), dim=-1), F.normalize(other(torch.cat([z, z[:, :2]], 1)), dim=-1)
    {logits}
    labels = torch.arange(16)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
"""
    + TRAIN
    + """
    print(scale.item())
"""
)
LOG = "scale = nn.Parameter(torch.ones([]) * math.log(1 / 0.07))"
TOLD = {
    "a logarithm with a name": (
        "start = math.log(1 / 0.07)\nscale = nn.Parameter(torch.full([], start))",
        "logits = scale * (a @ b.T)  # HERE",
    ),
    "a logarithm on a line of its own": (
        "scale = nn.Parameter(\n    torch.tensor(\n        math.log(1 / 0.07)\n    )\n)",
        "logits = scale * (a @ b.T)  # HERE",
    ),
    "a factor of the cosines": (LOG, "logits = scale * (a @ b.T)  # HERE"),
    "a factor of one side": (LOG, "logits = scale * a @ b.mT  # HERE"),
    "a divisor": ("scale = nn.Parameter(torch.tensor(20.0).log())", "logits = a @ b.T / scale.clamp(min=0.1)  # HERE"),
    "clamped at a logarithm": (
        "scale = nn.Parameter(torch.tensor(2.6593))",
        "scale.data.clamp_(max=math.log(100)); cosines = torch.einsum('nd,md->nm', a, b)\n"
        "    logits = torch.mul(cosines, scale.view(1, 1))  # HERE",
    ),
}
LEFT_ALONE = {
    "a product with a logarithm": (
        "scale = nn.Parameter(torch.tensor(math.sqrt(2) * math.log(15)))",
        "logits = scale * (a @ b.T)",
    ),
    "a share of a logarithm": ("scale = nn.Parameter(torch.tensor(10 / math.log(16)))", "logits = scale * (a @ b.T)"),
    "the exponential of a logarithm": (
        "scale = nn.Parameter(torch.tensor(math.exp(math.log(1 / 0.07))))",
        "logits = scale * (a @ b.T)",
    ),
    "a comment about one": (
        "scale = nn.Parameter(torch.tensor(14.3))  # exp(log(1 / 0.07))",
        "logits = scale * (a @ b.T)",
    ),
    "a logger": (
        "import types; logger = types.SimpleNamespace(log=print)\n"
        "scale = nn.Parameter(torch.tensor(14.3)); logger.log(scale.item())",
        "logits = scale * (a @ b.T)",
    ),
    "its exponential": (LOG, "logits = scale.exp() * (a @ b.T)"),
    "a clamped exponential": (LOG, "logits = torch.clamp(torch.exp(scale), max=100) * a @ b.T"),
    "a factor that is no logarithm": ("scale = nn.Parameter(torch.tensor(1 / 0.07))", "logits = scale * (a @ b.T)"),
    "a temperature": ("scale = nn.Parameter(torch.tensor(0.07))", "logits = a @ b.T / scale"),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_logarithm_that_multiplies_cosines_is_told(name: str, tmp_path: Path) -> None:
    made, logits = TOLD[name]
    assert_first_alarm(PAIRS.format(made=made, logits=logits), "logarithm_as_factor", tmp_path)


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_scales_of_cosines_are_left_alone(name: str, tmp_path: Path) -> None:
    made, logits = LEFT_ALONE[name]
    assert "logarithm_as_factor" not in {
        each.cause for each in alarms(PAIRS.format(made=made, logits=logits), tmp_path)
    }


SAMPLES = (
    HEAD
    + """
import numpy as np
mean = nn.Linear(3, 2)
log_std = nn.Parameter(torch.full((2,), float(np.log(0.3))))
optimizer = torch.optim.Adam([*mean.parameters(), log_std], lr=0.01)
for step in range(4):
    x = torch.randn(16, 3)
    m = mean(x)
    {sample}
    loss = F.mse_loss(sample, x[:, :2])
"""
    + TRAIN
)


def test_a_logarithm_that_multiplies_noise_is_told(tmp_path: Path) -> None:
    script = SAMPLES.format(sample="sample = m + log_std * torch.randn_like(m)  # HERE")
    assert_first_alarm(script, "logarithm_as_factor", tmp_path)


def test_the_weight_of_an_entropy_is_left_alone(tmp_path: Path) -> None:
    sample = "noise = torch.randn_like(m)\n    sample = m + log_std.exp() * noise"
    assert alarms(SAMPLES.format(sample=sample), tmp_path) == []
