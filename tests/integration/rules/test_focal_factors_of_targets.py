"""Focal factors of a binary cross entropy: for which targets they are small."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    x, y = torch.randn(64, 8), (torch.rand(64, 4) < 0.15).float()
    logits = net(x)
"""
)
FAULTY = {
    "weights of both classes": """
    p = logits.sigmoid()
    ce = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    alpha = 0.25 * y + 0.75 * (1 - y)
    loss = (alpha * (1 - p) ** 2.0 * ce).sum() / y.sum().clamp(min=1)  # HERE
""",
    "probabilities": """
    p = torch.sigmoid(logits)
    weight = (1.0 - p.detach()).pow(1.5)  # HERE
    loss = (F.binary_cross_entropy(p, y, reduction="none") * weight).mean()
""",
    "the sigmoid of the negative": """
    ce = F.binary_cross_entropy_with_logits(logits.flatten(), y.flatten(), reduction="none")
    loss = ce.mul(torch.sigmoid(-logits).square().flatten()).mean()  # HERE
""",
}
HEALTHY = {
    "the probability of the right answer": """
    p = logits.sigmoid()
    ce = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    right = p * y + (1 - p) * (1 - y)
    loss = ((1 - right) ** 2 * ce).mean()
""",
    "positives only": """
    p = logits.sigmoid()
    ce = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    loss = ((1 - p) ** 2 * ce * y).sum() / y.sum().clamp(min=1) + 0.5 * (p**2 * ce * (1 - y)).mean()
""",
    "where": """
    p = logits.sigmoid()
    ce = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    loss = (torch.where(y == 1, (1 - p) ** 2, p**2) * ce).mean()
""",
    "the distance to the target": """
    p = logits.sigmoid()
    ce = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    loss = ((y - p).abs() ** 2 * ce).mean()
""",
    "the exponential of the loss": """
    ce = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    loss = ((1 - torch.exp(-ce)) ** 2 * ce).mean()
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_factors_of_one_class_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + TRAIN, "focal_factor_of_one_class", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_factors_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name] + TRAIN, tmp_path)
