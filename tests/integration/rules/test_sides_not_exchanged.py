"""Keypoints of both sides of a body that are mirrored with the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

POSES = (
    HEAD
    + """
NAMES
def mirrored(image, points):
    image = image.flip(-1)
    MIRROR
    return image, points
model = nn.Linear(64, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    image, points = torch.rand(8, 8), torch.rand(5, 2)
    if step % 2:
        image, points = mirrored(image, points)
    loss = (model(image.flatten()).view(5, 2) - points).square().mean()
"""
    + TRAIN
)
SIDES = "KEYPOINTS = ['nose', 'left_eye', 'right_eye', 'left_hand', 'right_hand']"
TURN = "points[:, 0] = 1 - points[:, 0]"


def of_poses(mirror: str, names: str = SIDES) -> str:
    return POSES.replace("NAMES", names).replace("MIRROR", mirror.replace("\n", "\n    "))


KEPT = [
    of_poses(f"{TURN}  # HERE"),
    of_poses(f"{TURN}  # HERE", "# keypoints: nose, left eye, right eye, left ear, right ear"),
    of_poses("points = points.clone()\npoints[..., 0] = 1.0 - points[..., 0]  # HERE"),
]
EXCHANGED = [
    of_poses(f"{TURN}\npoints = points[[0, 2, 1, 4, 3]]"),
    of_poses(f"{TURN}\npoints = points[FLIP_ORDER]", SIDES + "\nFLIP_ORDER = torch.tensor([0, 2, 1, 4, 3])"),
    of_poses(f"{TURN}\nfor a, b in PAIRS:\n    points[a], points[b] = points[b].clone(), points[a].clone()",
             SIDES + "\nPAIRS = [(1, 2), (3, 4)]"),
    of_poses(f"{TURN}\npoints = points[ORDER]", SIDES + "\nORDER = torch.tensor([0, 2, 1, 4, 3])"),
    of_poses(f"{TURN}\npoints = points.index_select(0, ORDER)", SIDES + "\nORDER = torch.tensor([0, 2, 1, 4, 3])"),
    of_poses(f"{TURN}\nother = points.clone()\npoints[1], points[2] = other[2], other[1]"),
    of_poses(f"{TURN}\npoints = torch.stack([points[0], points[2], points[1], points[4], points[3]])"),
    of_poses(f"{TURN}\npoints = sides(points)", SIDES + "\nORDER = torch.tensor([0, 2, 1, 4, 3])"
             "\ndef sides(rows):\n    return rows[ORDER]"),
    of_poses(f"{TURN}\nrows = dict(zip(KEYPOINTS, points))\n"
             "rows['left_eye'], rows['right_eye'] = rows['right_eye'], rows['left_eye']\n"
             "points = torch.stack(list(rows.values()))"),
    # no sides of a body
    of_poses(TURN, "# keypoints of pebbles, away from the left border and the right border"),
    of_poses(TURN, "KEYPOINTS = ['top', 'middle', 'bottom', 'tail', 'tip']"),
    of_poses(TURN, "# keypoints of leaves, from left to right"),
    # no image is mirrored
    of_poses(TURN).replace("image = image.flip(-1)", "pass"),
]  # fmt: skip


@pytest.mark.parametrize("script", KEPT)
def test_sides_that_keep_their_places_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(script, "sides_not_exchanged", tmp_path)


@pytest.mark.parametrize("script", EXCHANGED)
def test_sides_that_are_exchanged_and_points_without_sides_are_right(script: str, tmp_path: Path) -> None:
    assert not alarms(script, tmp_path)
