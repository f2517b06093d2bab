"""Pictures that are standardized, and the range that they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms

NUMBERS = (
    HEAD
    + """
mean, std = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
pictures, labels = torch.randint(0, 256, (32, 3, 8, 8), dtype=torch.uint8), torch.randint(0, 3, (32,))
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(144, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
"""
)
LOOP = (
    """
for step in range(4):
    x, y = ready[8 * step : 8 * step + 8], labels[8 * step : 8 * step + 8]
    loss = F.cross_entropy(model(x), y)
"""
    + TRAIN
)
FAULTY = {
    "all at once": "ready = (pictures.float() - mean) / std\n",
    "one by one": "ready = torch.stack([picture.to(torch.float32).sub(mean).div(std) for picture in pictures])\n",
    "in two steps": "ready = pictures.float()\nready = ready - mean\nready = ready / std\n",
    "channels last": """
ready = pictures.permute(0, 2, 3, 1).float()
ready = ((ready - mean.view(3)) / std.view(3)).permute(0, 3, 1, 2)
""",
}
HEALTHY = {
    "divided before": "ready = (pictures.float() / 255 - mean) / std\n",
    "numbers of the pictures": "ready = (pictures.float() - 255 * mean) / (255 * std)\n",
    "their own mean": """
ready = pictures.float()
ready = (ready - ready.mean((0, 2, 3), keepdim=True)) / ready.std((0, 2, 3), keepdim=True)
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_pictures_that_were_not_divided_are_told(name: str, tmp_path: Path) -> None:
    assert "pixels_scaled_otherwise" in [each.cause for each in alarms(NUMBERS + FAULTY[name] + LOOP, tmp_path)][:1]


@pytest.mark.parametrize("name", HEALTHY)
def test_pictures_from_0_to_1_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(NUMBERS + HEALTHY[name] + LOOP, tmp_path)
