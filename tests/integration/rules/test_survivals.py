"""What reaches a step along a ray, or of a stick that is broken: the product of what the steps before it left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
field = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(field.parameters(), lr=0.01)
delta = torch.full((12,), 0.2)
for step in range(4):
    out = field(torch.rand(8, 12, 3))
    sigma, rgb = F.softplus(out[..., 0]), out[..., 1:].sigmoid()
"""
)
END = (
    """
    loss = ((weights[..., None] * rgb).sum(1) - 0.4).square().mean()
"""
    + TRAIN
)
FAULTY = {
    "a product with a small number": """
    alpha = 1 - torch.exp(-sigma * delta)
    weights = alpha * torch.cumprod(1 - alpha + 1e-10, -1)  # HERE
""",
    "a product of the exponentials themselves": """
    kept = torch.exp(-sigma * delta)
    transmittance = kept.cumprod(dim=1)  # HERE
    weights = transmittance * (1.0 - kept)
""",
    "the exponential of a cumulative sum": """
    alpha = 1.0 - torch.exp(-sigma * delta)
    transmittance = torch.exp(-torch.cumsum(sigma * delta, dim=1))  # HERE
    weights = transmittance * alpha
""",
    "a cumulative sum of logarithms": """
    alpha = (1 - (-sigma * delta).exp()).clamp(max=0.999)
    logs = torch.log(1 - alpha + 1e-7)
    weights = alpha * logs.cumsum(-1).exp()  # HERE
""",
    "sticks": """
    share = torch.sigmoid(out[..., 0])
    rest = torch.cumprod(torch.ones_like(share) - share, dim=1)  # HERE
    weights = share * rest
""",
}
HEALTHY = {
    "ones put before": """
    alpha = 1 - torch.exp(-sigma * delta)
    shifted = torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1)
    weights = alpha * torch.cumprod(shifted, -1)[:, :-1]
""",
    "the result shifted": """
    alpha = 1 - torch.exp(-sigma * delta)
    after = torch.cumprod(1 - alpha, -1)
    weights = alpha * torch.cat([torch.ones_like(after[:, :1]), after[:, :-1]], -1)
""",
    "rolled": """
    alpha = 1 - torch.exp(-sigma * delta)
    transmittance = torch.cumprod(1 - alpha, -1).roll(1, -1)
    transmittance = torch.cat([torch.ones(8, 1), transmittance[:, 1:]], 1)
    weights = alpha * transmittance
""",
    "its own factor divided out": """
    alpha = (1 - torch.exp(-sigma * delta)).clamp(max=0.99)
    weights = alpha * torch.cumprod(1 - alpha, -1) / (1 - alpha)
""",
    "its own rate taken off the sum": """
    rate = sigma * delta
    weights = (1 - torch.exp(-rate)) * torch.exp(-(torch.cumsum(rate, 1) - rate))
""",
    "other factors": """
    alpha = 1 - torch.exp(-sigma * delta)
    discount = torch.sigmoid(out[..., 1])
    weights = alpha * torch.cumprod(discount, 1)
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_products_with_their_own_factor_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + END, "survival_counts_itself", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_products_of_the_steps_before_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name] + END, tmp_path)
