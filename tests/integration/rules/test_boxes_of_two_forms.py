"""Overlaps of boxes with centres and sizes on one side, and corners on the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

BOXES = (
    HEAD
    + """
def corners(b):
    cx, cy, w, h = b.unbind(-1)
    return torch.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], -1)
def halves(b):
    centre, size = b.split(2, dim=-1)
    return torch.cat([centre - 0.5 * size, centre + 0.5 * size], dim=-1)
def overlap(a, b):
    sides = torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])
    both = sides.clamp(min=0).prod(1)
    area = [(each[:, 2:] - each[:, :2]).clamp(min=0).prod(1) for each in (a, b)]
    return 1 - both / (area[0] + area[1] - both + 1e-6)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    x = torch.rand(16, 8)
    boxes = torch.cat([x[:, :2] * 0.5 + 0.25, x[:, 2:4] * 0.3 + 0.1], 1)
    predicted = net(x).sigmoid()
    {compared}
    {overlap}
"""
    + TRAIN
)
DIRECT = "distance = F.l1_loss(predicted, boxes)"
FAULTY = [
    (DIRECT, "loss = distance + overlap(predicted, corners(boxes)).mean()  # HERE"),
    (
        "distance = F.smooth_l1_loss(predicted, boxes)",
        "loss = distance + overlap(halves(boxes), predicted).mean()  # HERE",
    ),
    (
        "distance = (boxes - predicted).square().mean()",
        "loss = distance + overlap(halves(predicted), boxes).mean()  # HERE",
    ),
]
HEALTHY = [
    (DIRECT, "loss = distance + overlap(corners(predicted), corners(boxes)).mean()"),
    ("boxes = corners(boxes)", "loss = F.l1_loss(predicted, boxes) + overlap(predicted, boxes).mean()"),
    ("wanted = corners(boxes)", "loss = F.l1_loss(predicted, wanted) + overlap(predicted, wanted).mean()"),
    ("predicted = halves(predicted)", "loss = overlap(predicted, corners(boxes)).mean()"),
]


@pytest.mark.parametrize(("compared", "overlap"), FAULTY)
def test_a_side_that_is_not_converted_is_told_at_the_line_that_computes_the_overlap(
    compared: str, overlap: str, tmp_path: Path
) -> None:
    assert_first_alarm(BOXES.format(compared=compared, overlap=overlap), "boxes_of_two_forms", tmp_path)


@pytest.mark.parametrize(("compared", "overlap"), HEALTHY)
def test_two_sides_of_one_form_are_right(compared: str, overlap: str, tmp_path: Path) -> None:
    assert alarms(BOXES.format(compared=compared, overlap=overlap), tmp_path) == []


NOT_CONVERTED = "loss = F.l1_loss(predicted, boxes) + overlap(predicted, boxes).mean()  # HERE"


def test_boxes_of_the_data_that_end_before_they_begin_are_no_corners(tmp_path: Path) -> None:
    assert_first_alarm(BOXES.format(compared="", overlap=NOT_CONVERTED), "boxes_of_two_forms", tmp_path)
    padded = "boxes = corners(boxes) * (x[:, 4:5] < 0.5)"  # boxes of nothing begin and end at 0
    assert not alarms(BOXES.format(compared=padded, overlap=NOT_CONVERTED), tmp_path)


EVALUATED = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Sigmoid())
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
def corners(boxes):
    return torch.cat([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
def iou(a, b):
    sides = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0)
    shared = sides[:, 0] * sides[:, 1]
    area = lambda z: (z[:, 2] - z[:, 0]).clamp(min=0) * (z[:, 3] - z[:, 1]).clamp(min=0)
    return shared / (area(a) + area(b) - shared).clamp(min=1e-6)
x, boxes = torch.randn(64, 8), torch.rand(64, 4) * 0.4 + 0.3
for step in range(6):
    loss = nn.functional.l1_loss(model(x), boxes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print(SCORE)
"""


def test_an_evaluation_that_takes_centres_for_corners_is_told(tmp_path: Path) -> None:
    script = EVALUATED.replace("print(SCORE)", "print(iou(model(x), boxes).mean())  # HERE")
    assert_first_alarm(script, "boxes_of_two_forms", tmp_path)


@pytest.mark.parametrize("score", ["iou(corners(model(x)), corners(boxes)).mean()", "iou(boxes, model(x)).mean()"])
def test_an_evaluation_of_corners_raises_no_alarm(score: str, tmp_path: Path) -> None:
    script = EVALUATED.replace("SCORE", score)
    if "corners(" not in score:
        script = script.replace("torch.rand(64, 4) * 0.4 + 0.3", "corners(torch.rand(64, 4) * 0.3 + 0.3)")
    assert [f"{each.cause}: {each.message}" for each in alarms(script, tmp_path)] == []
