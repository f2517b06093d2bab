"""Samplers that go through the levels of noise upwards or downwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

DIFFUSION = (
    HEAD
    + """
T = 20
beta = torch.linspace(1e-3, 0.2, T)
alpha = 1 - beta
kept = KEPT
net = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def ask(x, i):
    return net(torch.cat([x, torch.full((len(x), 1), i / T)], 1))
for step in range(6):
    x0 = torch.randn(32, 2) * 0.2 + torch.tensor([[1.0, -1.0]])
    t, noise = torch.randint(0, T, (32,)), torch.randn(32, 2)
    level = torch.cumprod(alpha, 0)[t][:, None]
    x = level.sqrt() * x0 + (1 - level).sqrt() * noise
    loss = (net(torch.cat([x, t[:, None] / T], 1)) - noise).square().mean()
"""
    + TRAIN
    + """
@torch.no_grad()
def sample(n):
    SAMPLE
    return x
print(sample(16).mean(0))
"""
)
STEP = """
        x = (x - beta[i] / (1 - kept[i]).sqrt() * ask(x, i)) / alpha[i].sqrt()
        if i > 0: x = x + beta[i].sqrt() * torch.randn_like(x)"""


def of_sampler(sample: str, kept: str = "alpha.cumprod(0)") -> str:
    return DIFFUSION.replace("SAMPLE", sample).replace("KEPT", kept)


UPWARDS = [
    of_sampler("x = torch.randn(n, 2)\n    for i in range(T):  # HERE" + STEP),
    of_sampler("x = torch.randn((n, 2))\n    for i in range(0, T):  # HERE" + STEP, "torch.cumprod(alpha, dim=0)"),
    of_sampler(
        """x = torch.randn(n, 2)
    for k in range(T):  # HERE
        e = ask(x, k)
        x = (x - (1 - kept[k]).sqrt() * e) / kept[k].sqrt() * 0.9 + 0.1 * x"""
    ),
]
DOWNWARDS = [
    of_sampler("x = torch.randn(n, 2)\n    for i in reversed(range(T)):" + STEP),
    of_sampler("x = torch.randn(n, 2)\n    for i in range(T - 1, -1, -1):" + STEP),
    of_sampler("x = torch.randn(n, 2)\n    for k in range(T):\n        i = T - 1 - k" + STEP),
    of_sampler("x = torch.randn(n, 2)\n    for i in range(T):\n        i = T - 1 - i" + STEP),
    # the table begins with the most noise
    of_sampler(
        """x = torch.randn(n, 2)
    for i in range(T):
        x = (x - (1 - kept[i]).sqrt() * ask(x, T - 1 - i)) / kept[i].sqrt() * 0.9 + 0.1 * x""",
        "alpha.cumprod(0).flip(0)",
    ),
    # discounts
    of_sampler("x = torch.randn(n, 2)\n    for i in range(T):\n        x = x + kept[i] * torch.tanh(ask(x, 0))"),
    # what noise does to data that are noise themselves
    of_sampler(
        """x = torch.randn(n, 2)
    for i in range(T):
        x = alpha[i].sqrt() * x + beta[i].sqrt() * torch.randn_like(x)
        print(x.var(), 1 - kept[i])"""
    ),
    # a number that is only shown
    of_sampler(
        """x = torch.randn(n, 2)
    for k in range(T):
        i = T - 1 - k
        e = ask(x, i)
        x = (x - beta[i] / (1 - kept[i]).sqrt() * e) / alpha[i].sqrt()
        print(1 - kept[k])"""
    ),
    # from data to noise
    of_sampler(
        """x = x0[:n]
    for i in range(T):
        e = ask(x, i)
        x = kept[i].sqrt() * (x - (1 - kept[i]).sqrt() * e) + (1 - kept[i]).sqrt() * e"""
    ),
]


@pytest.mark.parametrize("script", UPWARDS)
def test_samplers_that_begin_at_the_level_of_least_noise_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "levels_walked_upwards", tmp_path)


@pytest.mark.parametrize("script", DOWNWARDS)
def test_samplers_that_begin_at_the_level_of_most_noise_are_right(script: str, tmp_path: Path) -> None:
    assert not alarms(script, tmp_path)
