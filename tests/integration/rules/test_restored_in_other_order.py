"""Boxes that are brought back to pixels with the sides of the picture in another order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import alarms, assert_first_alarm

SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
W, H = 64, 32
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, COUNT))
def answer(x):
    return torch.sigmoid(model(x))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
size = torch.tensor([W, H, W, H], dtype=torch.float32)
for step in range(6):
    x = torch.randn(8, 6)
    boxes = torch.rand(8, 4) * size
    loss = nn.functional.smooth_l1_loss(ANSWER, TARGETS)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    pred = RESTORED
    print((pred - boxes).abs().mean())
"""


def _script(restored: str, *, answer: str = "model(x)", targets: str = "boxes / size", count: int = 4) -> str:
    script = SCRIPT.replace("RESTORED", restored).replace("TARGETS", targets).replace("ANSWER", answer)
    return script.replace("COUNT", str(count))


@pytest.mark.parametrize(
    "script",
    [
        _script("answer(x) * torch.tensor([H, W, H, W])  # HERE", answer="answer(x)"),
        _script("torch.tensor([H, W, H, W]) * model(x)  # HERE"),
        _script(
            "model(x)[:, 1:] * torch.tensor([H, W, H, W]).float()  # HERE",
            targets="boxes / torch.tensor([W, H, W, H])", answer="model(x)[:, 1:]", count=5,
        ),
    ],
)  # fmt: skip
def test_sizes_in_another_order_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "restored_in_other_order", tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        _script("answer(x) * size", answer="answer(x)"),
        _script("(model(x)[:, [1, 0, 3, 2]] * torch.tensor([H, W, H, W]))[:, [1, 0, 3, 2]]"),
        _script(
            "(model(x) * torch.tensor([H, W, H, W]))[:, [1, 0, 3, 2]]",
            targets="boxes[:, [1, 0, 3, 2]] / torch.tensor([H, W, H, W])",
        ),
        _script("model(x) * torch.tensor([128, 64, 128, 64])"),
    ],
)  # fmt: skip
def test_sizes_in_the_order_of_the_values_raise_no_alarm(script: str, tmp_path: Path) -> None:
    assert [f"{each.cause}: {each.message}" for each in alarms(script, tmp_path)] == []
