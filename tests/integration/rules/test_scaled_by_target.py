"""Windows that are scaled by all of their steps, or by those that a model reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SERIES = """
from torch.utils.data import DataLoader, Dataset
series = torch.randn(600).cumsum(0)
model = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 6))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
"""
ITEMS = """
class Windows(Dataset):
    def __len__(self):
        return 500
    def __getitem__(self, s):
        window = series[s:s + 30]
ITEM
for x, y in DataLoader(Windows(), batch_size=50, shuffle=True):
    loss = F.l1_loss(model(x), y)
"""
BATCHES = """
for step in range(8):
    w = torch.stack([series[s:s + 30] for s in torch.randint(0, 560, (32,)).tolist()])
BATCH
    loss = (model(x) - y).square().mean()
"""

WRONG = {
    "items": """
        mu, sd = window.mean(), window.std() + 1e-6  # HERE
        scaled = (window - mu) / sd
        return scaled[:24], scaled[24:]
""",
    "only the history is scaled": """
        low, high = window.min(), window.max()  # HERE
        return (window[:24] - low) / (high - low), window[24:]
""",
    "batches": """
    w = (w - w.mean(1, keepdim=True)) / w.std(1, keepdim=True)  # HERE
    x, y = w[:, :24], w[:, -6:]
""",
    "batches by their bounds": """
    low = w.amin(dim=1)[:, None]  # HERE
    w = (w - low) / (w.amax(dim=1)[:, None] - low)
    x, y = w.split([24, 6], dim=1)
""",
    "one column of several": """
    w = w[..., None] * torch.ones(2)
    w = w - w.mean(dim=1, keepdim=True)  # HERE
    x, y = w[:, :24, 0], w[:, 24:, 0]
""",
}

HEALTHY = {
    "the mean of the history": """
        past = window[:24]
        mu, sd = past.mean(), past.std() + 1e-6
        scaled = (window - mu) / sd
        return scaled[:24], scaled[24:]
""",
    "the last value of the history": """
        scaled = window - window[23]
        return scaled[:24], scaled[24:]
""",
    "the mean of the series": """
        scaled = (window - series[:500].mean()) / series[:500].std()
        return scaled[:24], scaled[24:]
""",
    "the mean of each step over the batch": """
    w = (w - w.mean(0)) / w.std(0)
    x, y = w[:, :24], w[:, 24:]
""",
    "the mean of all windows": """
    w = (w - w.mean()) / w.std()
    x, y = w[:, :24], w[:, 24:]
""",
    "the history of a batch": """
    mean = w[:, :24].mean(1, keepdim=True)
    w = w - mean
    x, y = w[:, :24], w[:, 24:]
""",
    "a target that is the sign of the next step": """
    x, y = w[:, :24], (w[:, 24:] > w[:, 23:24]).float()
    x = x - x.mean(1, keepdim=True)
""",
    "windows of a series that was scaled before": """
    if step == 0:
        series = (series - series.mean()) / series.std()
    x, y = w[:, :24], w[:, 24:]
""",
    "a number is the target": """
    w = w - w.mean(1, keepdim=True)
    x, y = w[:, :24], 1.0
""",
    "overlapping parts": """
    w = w - w.mean(1, keepdim=True)
    x = w[:, :24] + 0.1 * torch.randn(32, 24)
    y = w[:, 9:15]
""",
}


def _script(body: str) -> str:
    frame = ITEMS.replace("ITEM\n", f"{body.strip(chr(10))}\n") if "return" in body else BATCHES.replace("BATCH", body)
    return HEAD + SERIES + frame + TRAIN.lstrip("\n")


@pytest.mark.parametrize("shape", list(WRONG))
def test_windows_scaled_by_what_is_to_be_forecast_are_told(shape: str, tmp_path: Path) -> None:
    assert_first_alarm(_script(WRONG[shape]), "scaled_by_target", tmp_path)


@pytest.mark.parametrize("look", list(HEALTHY))
def test_windows_scaled_by_what_is_known_raise_no_alarm(look: str, tmp_path: Path) -> None:
    found = [f"{each.cause}: {each.message}" for each in alarms(_script(HEALTHY[look]), tmp_path)]
    assert [each for each in found if each.startswith("scaled_by_target")] == []
