"""Models that are scored on rows that they were trained on, and parts of the data that are apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
x = torch.randn(200, 6)
y = (x[:, :1] - x[:, 1:2]).sign() + 0.1 * torch.randn(200, 1)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

def fit(inputs, targets):
    order = torch.randperm(len(inputs))
    for start in range(0, len(inputs), 25):
        rows = order[start:start + 25]
        loss = F.mse_loss(net(inputs[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def score(inputs, targets):
    with torch.no_grad():
        return F.mse_loss(net(inputs), targets).item()

"""
)
TOLD = {
    "slices": "for epoch in range(3):\n    fit(x[:150], y[:150])\n    print(score(x[120:], y[120:]))  # HERE\n",
    "the same permutation": "p = torch.randperm(200)\n"
    "train, held_out = p[:150], p[120:]  # HERE\n"
    "for epoch in range(3):\n    fit(x[train], y[train])\n    print(score(x[held_out], y[held_out]))\n",
    "all, and the end": "for epoch in range(3):\n    fit(x, y)\nprint(score(x[160:], y[160:]))  # HERE\n",
    "a part of which the mean is taken away": "mean, std = x.mean(0), x.std(0)\n"
    "for epoch in range(3):\n    fit((x[:150] - mean) / std, y[:150])\n"
    "print(score((x[100:] - mean) / std, y[100:]))  # HERE\n",
}
RIGHT = {
    "apart": "for epoch in range(3):\n    fit(x[:150], y[:150])\n    print(score(x[150:], y[150:]))\n",
    "parts of one permutation": "p = torch.randperm(200)\ntrain, held_out = p[:150], p[150:]\n"
    "for epoch in range(3):\n    fit(x[train], y[train])\n    print(score(x[held_out], y[held_out]))\n",
    "the training error of some": "for epoch in range(3):\n    fit(x[:150], y[:150])\n"
    "    print(score(x[:50], y[:50]))\n",
    "all, and all": "for epoch in range(3):\n    fit(x, y)\n    print(score(x, y))\n",
    "all, and both halves": "for epoch in range(3):\n    fit(x, y)\n"
    "print(score(x[:100], y[:100]), score(x[100:], y[100:]))\n",
    "walking forward": "for end in (50, 90, 130):\n    fit(x[:end], y[:end])\n"
    "    print(score(x[end:end + 60], y[end:end + 60]))\n",
    "folds": "for fold in range(4):\n    out = torch.arange(200) // 50 == fold\n    fit(x[~out], y[~out])\n"
    "    print(score(x[out], y[out]))\n",
}  # fmt: skip


@pytest.mark.parametrize("lines", TOLD.values(), ids=TOLD)
def test_rows_that_were_trained_on_are_told(lines: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM + lines, "scored_on_trained_rows", tmp_path)


@pytest.mark.parametrize("lines", RIGHT.values(), ids=RIGHT)
def test_rows_that_are_apart_or_all_are_right(lines: str, tmp_path: Path) -> None:
    assert not alarms(PROGRAM + lines, tmp_path)
