"""Models of scaled targets, and scores with targets that were scaled or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

START = (
    HEAD
    + """
x = torch.randn(80, 5)
price = (3000 + 400 * x.sum(1) + 100 * torch.randn(80)).clamp(min=200)
train, held_out = price[:60], price[60:]
mean, std = train.mean(), train.std()
target = SCALED
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(5, 16), nn.Linear(16, 1)
    def forward(self, x):
        return self.head(self.body(x).relu())[:, 0]
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(8):
    order = torch.randperm(60)[:20]
    loss = F.mse_loss(net(x[order]), target[order])
"""
    + TRAIN
    + """
with torch.no_grad():
    found = net(x[60:])
"""
)


def script(scaled: str, score: str) -> str:
    return START.replace("SCALED", scaled) + f"    {score}\n"


STANDARD = "(train - mean) / std"
FAULTY = {
    "a loss": script(STANDARD, "print(F.mse_loss(found, held_out).sqrt().item())  # HERE"),
    "by hand": script(STANDARD, "print((held_out - found).abs().mean().item())  # HERE"),
    "thousands": script("train / 1000", "print(F.l1_loss(found, held_out).item())  # HERE"),
    "logarithms": script("train.log()", "print((found - held_out).square().mean().item())  # HERE"),
    "between 0 and 1": script(
        "(train - train.min()) / (train.max() - train.min())", "print((found - held_out).abs().mean().item())  # HERE"
    ),
}
HEALTHY = {
    "scaling undone": script(STANDARD, "print(F.mse_loss(found * std + mean, held_out).sqrt().item())"),
    "scaled as well": script(STANDARD, "print(F.mse_loss(found, (held_out - mean) / std).sqrt().item())"),
    "exponentials": script("train.log()", "print((found.exp() - held_out).square().mean().item())"),
    "no scaling": script("train", "print((found - held_out).abs().mean().item())"),
    "from where a change led to": script(
        "train - (x[:60, 0] + 3000)", "now = held_out - found\n    print((now - x[60:, 0] - 3000).abs().mean().item())"
    ),
    "a small shift": script("train - 50", "print((found - held_out).abs().mean().item())"),
    "a baseline": script(STANDARD, "print((mean - held_out).abs().mean().item(), found.mean().item())"),
    "farther than trained": script(STANDARD, "print((net(9 * x[60:]) - 9 * (held_out - mean) / std).abs().mean())"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_scaled_predictions_beside_unscaled_targets_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTY[name], "scored_in_other_units", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_scores_in_the_same_units_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
