"""Windows of a series that have the value they are asked for, cut out beforehand; and windows that end before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

_SCRIPT = """
import numpy as np
series = torch.randn(200).cumsum(0)
SERIES
model = nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
"""
_PICKED = """
for step in range(5):
    some = torch.randint(0, len(x), (16,))
    loss = F.mse_loss(model(x[some]).squeeze(1), y[some])
"""
_LOADED = """
for a, b in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 32, shuffle=True):
    loss = F.mse_loss(model(a).squeeze(1), b)
"""
_WHOLE = """
for step in range(5):
    loss = F.mse_loss(model(x).squeeze(1), y)
"""


def of(width: int, loop: str, *series: str) -> str:
    return HEAD + _SCRIPT.replace("SERIES", "\n".join(series)).replace("WIDTH", str(width)) + loop.rstrip() + TRAIN


_STACKED = "x = torch.stack([series[i : i + 9] for i in range(150)])"
_ARRAY = "s = series.numpy()\nxs, ys = [], []\nfor i in range(150):"
_TENSORS = "x, y = torch.tensor(np.array(xs)), torch.tensor(np.array(ys))"


@pytest.mark.parametrize(
    "script",
    [
        of(9, _PICKED, _STACKED, "y = series[8:]  # HERE"),
        of(9, _LOADED, "x, y = series.unfold(0, 9, 1), series[8:]  # HERE"),
        of(8, _PICKED, "x, y = series.unfold(0, 9, 1)[:, 1:], series[8:]  # HERE"),
        of(9, _WHOLE, "W = 8", _ARRAY, "    xs.append(s[i : i + W + 1])", "    ys.append(s[i + W])  # HERE", _TENSORS),
        of(
            9,
            _LOADED,
            "s, W = series.numpy(), 9",
            "xs = [s[i : i + W] for i in range(len(s) - W)]",
            "ys = [s[i + W - 1] for i in range(len(s) - W)]  # HERE",
            _TENSORS,
        ),
    ],
    ids=["stacked and picked", "unfolded and loaded", "parts of windows", "an array, in a loop", "in comprehensions"],
)
def test_windows_with_their_targets(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "targets_are_inputs", tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        of(9, _PICKED, _STACKED, "y = series[9:]"),
        of(8, _LOADED, "table = series.unfold(0, 9, 1)", "x, y = table[:, :-1], table[:, -1]"),
        of(9, _LOADED, "x, y = series.unfold(0, 9, 1)[:-1], series[9:]"),
        of(8, _WHOLE, "W = 8", _ARRAY, "    xs.append(s[i : i + W])", "    ys.append(s[i + W])", _TENSORS),
        # The window is cut once more; the target is another array; what is asked for is a change.
        of(
            8,
            _WHOLE,
            "W = 8",
            _ARRAY,
            "    part = s[i : i + W + 1]",
            "    xs.append(part[:-1])",
            "    ys.append(s[i + W])",
            _TENSORS,
        ),
        of(
            9,
            _WHOLE,
            "W = 8\nclean = series.clone().numpy()",
            _ARRAY,
            "    xs.append(s[i : i + W + 1])",
            "    ys.append(clean[i + W])",
            _TENSORS,
        ),
        of(
            9,
            _WHOLE,
            "W = 8",
            _ARRAY,
            "    xs.append(s[i : i + W + 1])",
            "    ys.append(s[i + W + 1] - s[i + W])",
            _TENSORS,
        ),
        # Of two columns, one is known and the other one is asked for.
        of(
            9,
            _WHOLE,
            "W = 9\ns2 = torch.randn(200, 2).numpy()",
            _ARRAY,
            "    xs.append(s2[i : i + W, 0])",
            "    ys.append(s2[i + W - 1, 1])",
            _TENSORS,
        ),
    ],
)
def test_windows_that_end_before_their_targets(script: str, tmp_path: Path) -> None:
    assert "targets_are_inputs" not in {each.cause for each in alarms(script, tmp_path)}
