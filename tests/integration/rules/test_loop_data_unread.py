"""Loops over batches in which the loss is computed from other variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

START = (
    HEAD
    + """
from torch.utils.data import DataLoader, TensorDataset
data = torch.randn(96, 4)
labels = (data[:, 0] > 0).long()
loader = DataLoader(TensorDataset(data, labels), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = next(iter(loader))
def step(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)
END = """
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
FAULTY = {
    "another batch": "for epoch in range(2):\n    for xb, yb in loader:\n"
    "        loss = F.cross_entropy(model(x), y)  # HERE" + END,
    "counted batches": "for epoch in range(2):\n    for i, (xb, yb) in enumerate(loader):\n"
    "        out = model(x)\n        loss = F.cross_entropy(out, y)  # HERE" + END,
    "batches that are cut and not used": "for epoch in range(2):\n    for i in range(0, 96, 16):\n"
    "        xb, yb = data[i:i + 16], labels[i:i + 16]\n        xb = xb * 2\n"
    "        loss = F.cross_entropy(model(x), y)  # HERE" + END,
}
HEALTHY = {
    "the batch of the loop": "for epoch in range(2):\n    for x, y in loader:\n"
    "        loss = F.cross_entropy(model(x), y)" + END,
    "all data, in each of some turns": "if True:\n    for turn in range(4):\n"
    "        loss = F.cross_entropy(model(data), labels)" + END,
    "a batch that overfits on purpose": "for epoch in range(2):\n    for _x, _y in loader:\n"
    "        loss = F.cross_entropy(model(x), y)" + END,
    "one of the two names": "for epoch in range(2):\n    for xb, yb in loader:\n"
    "        loss = F.mse_loss(model(xb).sum(1), xb.sum(1))" + END,
    "a dictionary of both": "for epoch in range(2):\n    for xb, yb in loader:\n"
    "        batch = {'x': xb, 'y': yb}\n        loss = F.cross_entropy(model(batch['x']), batch['y'])" + END,
    "kept in an object": "class State: pass\nfor epoch in range(2):\n    for xb, yb in loader:\n"
    "        State.x, State.y = xb, yb\n        loss = F.cross_entropy(model(State.x), State.y)" + END,
    "turns that are counted with a step": "for epoch in range(2):\n    for i in range(0, 96, 16):\n"
    "        rows = torch.randint(96, (16,))\n        loss = F.cross_entropy(model(data[rows]), labels[rows])" + END,
    "variables of the file": "def error():\n    return F.cross_entropy(model(xb), yb)\nfor epoch in range(2):\n"
    "    for xb, yb in loader:\n        loss = error()" + END,
    "a closure": "for epoch in range(2):\n    for xb, yb in loader:\n"
    "        def closure():\n            return F.cross_entropy(model(xb), yb)\n        loss = closure()" + END,
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_loss_of_other_data_than_those_of_the_loop_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(START + FAULTY[name], "loop_data_unread", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_loops_whose_data_are_used_or_left_out_on_purpose_are_right(name: str, tmp_path: Path) -> None:
    assert not alarms(START + HEALTHY[name], tmp_path)
