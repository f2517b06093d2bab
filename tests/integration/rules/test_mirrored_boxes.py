"""Boxes of images that are flipped: which edge becomes which."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, findings

MODEL = (
    HEAD
    + """
corner, size = torch.rand(48, 2) * 20, torch.rand(48, 2) * 10 + 1
data = torch.cat([corner, corner + size], dim=1)
images = torch.rand(48, 1, 8, 8) + data[:, :1, None, None] / 32
net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(6):
    rows = torch.randperm(48)[:16]
    x, boxes = images[rows], data[rows]
    if step % 2:
        x = x.flip(3)
"""
)
END = """
    loss = F.smooth_l1_loss(net(x), boxes / 32)
"""
FAULTY = {
    "two columns at once": """
        boxes = boxes.clone()
        boxes[:, [0, 2]] = 32 - boxes[:, [0, 2]]  # HERE
""",
    "a slice of every second column": """
        boxes[..., 0::2] = 32 - boxes[..., 0::2]  # HERE
""",
    "one column after the other": """
        boxes[:, 0] = 32 - boxes[:, 0]
        boxes[:, 2] = 32 - boxes[:, 2]  # HERE
""",
    "new boxes": """
        x1, y1, x2, y2 = boxes.unbind(-1)
        boxes = torch.stack([32 - x1, y1, 32 - x2, y2], dim=-1)  # HERE
""",
}
FAULTY["columns that are read one by one"] = """
        left, right = 32 - boxes[:, 0], 32 - boxes[:, 2]
        boxes = torch.stack((left, boxes[:, 1], right, boxes[:, 3]), dim=1)  # HERE
"""
HEALTHY = {
    "exchanged": """
        boxes[:, [0, 2]] = 32 - boxes[:, [2, 0]]
""",
    "new boxes": """
        x1, y1, x2, y2 = boxes.unbind(-1)
        boxes = torch.stack([32 - x2, y1, 32 - x1, y2], dim=-1)
""",
    "exchanged after that": """
        boxes[:, [0, 2]] = 32 - boxes[:, [0, 2]]
        boxes[:, [0, 2]] = boxes[:, [2, 0]]
""",
    "put in order after that": """
        boxes[:, [0, 2]] = 32 - boxes[:, [0, 2]]
        boxes = torch.cat([torch.minimum(boxes[:, :2], boxes[:, 2:]), torch.maximum(boxes[:, :2], boxes[:, 2:])], 1)
""",
    "other columns after that": """
        boxes[:, [0, 2]] = 32 - boxes[:, [0, 2]]
        boxes = boxes[:, [2, 1, 0, 3]]
""",
    "columns by a tensor": """
        boxes[:, [0, 2]] = 32 - boxes[:, [0, 2]]
        boxes = boxes.index_select(1, torch.tensor([2, 1, 0, 3]))
""",
    "columns joined after that": """
        boxes[:, [0, 2]] = 32 - boxes[:, [0, 2]]
        boxes = torch.stack([boxes[:, 2], boxes[:, 1], boxes[:, 0], boxes[:, 3]], dim=1)
""",
    "half a turn": """
        boxes[:, 0::2] = 32 - boxes[:, 0::2]
        boxes[:, 1::2] = 32 - boxes[:, 1::2]
        boxes = torch.cat([boxes[:, 2:], boxes[:, :2]], dim=1)
""",
    "centres": """
        boxes = torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], dim=1)
        boxes[:, 0] = 32 - boxes[:, 0]
""",
    "a kept column": """
        left = 32 - boxes[:, 2]
        boxes[:, 2] = 32 - boxes[:, 0]
        boxes[:, 0] = left
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_edges_that_stay_in_their_columns_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + END + TRAIN, "corners_not_exchanged", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_boxes_that_are_flipped_well_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name] + END + TRAIN, tmp_path)


def test_ends_of_lines_may_be_in_any_order(tmp_path: Path) -> None:
    ends = MODEL.replace("corner + size], dim=1)", "torch.rand(48, 2) * 20], dim=1)")
    found = findings(ends + FAULTY["two columns at once"] + END + TRAIN, tmp_path)
    assert [each.severity for each in found if each.cause == "corners_not_exchanged"] == ["note"]
