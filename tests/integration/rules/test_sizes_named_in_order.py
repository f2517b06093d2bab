"""Sizes that one line names in one order, and a reshape in another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

METERS = """
class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear({width}, 8), nn.Linear(8, 1)
    def forward(self, x):
        {taken}
        {reshape}
        return self.last(torch.tanh(self.first(series))).mean()
net = Forecast()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(6, {times}, 3).cumsum(1)
    loss = (net(x) - 1).square()
"""
MIXED = {
    "a product": ("b, t, m = x.shape", "series = x.reshape(b * m, t)  # HERE", 10),
    "the rest": ("b, t, m = x.size()", "series = x.contiguous().view(b * m, -1)  # HERE", 10),
    "three axes": ("(b, t, m) = x.shape", "series = x.reshape((b, m, t))  # HERE", 10),
    "one that was scaled before": (
        "b, t, m = x.shape",
        "series = (x - x.mean(1, keepdim=True)).reshape(-1, t)  # HERE",
        10,
    ),
}
RIGHT = {
    "a transposition before": ("b, t, m = x.shape", "series = x.transpose(1, 2).reshape(b * m, t)", 10),
    "one on the line above": ("b, t, m = x.shape", "x = x.transpose(1, 2)\n        series = x.reshape(b * m, t)", 10),
    "the order of the shape": ("b, t, m = x.shape", "series = x.reshape(b * t, m)", 3),
    "all behind the batch": ("b, t, m = x.shape", "series = x.reshape(b, t * m)", 30),
    "a single one": ("b, t, m = x[..., :1].shape", "series = x[..., :1].reshape(b * m, t)", 10),
    "names for a transposed shape": (
        "b, m, t = x.transpose(1, 2).shape",
        "series = x.transpose(1, 2).reshape(b * m, t)",
        10,
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_a_reshape_that_exchanges_named_sizes_is_told(name: str, tmp_path: Path) -> None:
    taken, reshape, width = MIXED[name]
    script = HEAD + METERS.format(taken=taken, reshape=reshape, width=width, times=10) + TRAIN
    assert_first_alarm(script, "axes_mixed_up", tmp_path)


@pytest.mark.parametrize("name", RIGHT)
def test_a_reshape_in_the_order_of_the_sizes_is_left_alone(name: str, tmp_path: Path) -> None:
    taken, reshape, width = RIGHT[name]
    script = HEAD + METERS.format(taken=taken, reshape=reshape, width=width, times=10) + TRAIN
    assert not [each for each in alarms(script, tmp_path) if each.cause == "axes_mixed_up"]
