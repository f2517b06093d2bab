"""Pixels that are scaled twice, or normalized with figures for another range."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

START = (
    HEAD
    + """
import numpy as np
from torch.utils.data import DataLoader, Dataset
MEAN, STD = torch.tensor([0.485, 0.456, 0.406])[:, None, None], torch.tensor([0.229, 0.224, 0.225])[:, None, None]
pixels = torch.randint(0, 256, (48, 3, 6, 6), dtype=torch.uint8)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
class Images(Dataset):
    def __len__(self):
        return 48
    def __getitem__(self, i):
        x = pixels[i]
        PREPARE
        return x, i % 2
for x, y in DataLoader(Images(), batch_size=16, shuffle=True):
    BATCH
    loss = F.cross_entropy(model(x), y)
"""
    + TRAIN
)


def script(prepare: str, batch: str = "pass") -> str:
    return START.replace("PREPARE", prepare).replace("BATCH", batch)


FAULTY = {
    "once more in the loop": script("x = x.float() / 255", "x = x / 255.0  # HERE"),
    "once more by a product": script("x = x.float().div(255)", "x = x.mul(1 / 255)  # HERE"),
    "an array of shares": script("x = torch.from_numpy(pixels[i].numpy().astype('float32') / 255) / 255  # HERE"),
    "figures for shares": script("x = (x.float() - MEAN) / STD  # HERE"),
    "figures for shares in place": script("x = x.float().sub_(MEAN).div_(STD)  # HERE"),
    "numbers for shares": script("x = x.float()", "x = (x - 0.5) / 0.5  # HERE"),
}
HEALTHY = {
    "scaled once": script("x = x.float() / 255", "x = (x - MEAN) / STD"),
    "scaled in the loop": script("x = x.float()", "x = x / 255"),
    "quantized in between": script("x = x.float() / 255", "x = (x * 255).round() / 255"),
    "noise of less than a step": script("x = x.float() / 255", "x = x + torch.rand_like(x) / 255"),
    "figures of the pixels": script("x = (x.float() - 255 * MEAN) / (255 * STD)"),
    "figures that were computed": script("x = (x.float() - x.float().mean()) / x.float().std()"),
    "between -1 and 1": script("x = x.float() / 127.5 - 1"),
    "counts that are mostly 0": script(
        "x = (x == 7).float() * 200", "x = (x - x.mean((0, 2, 3), True)) / (x.std((0, 2, 3), keepdim=True) + 1)"
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_pixels_of_another_range_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTY[name], "pixels_scaled_otherwise", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_pixels_that_are_scaled_once_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
