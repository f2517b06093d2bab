"""Pictures that are flipped at random, and their boxes: with them, or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
import random
import numpy as np
random.seed(0)
def mirrored(box):
    return torch.stack([1 - box[2], box[1], 1 - box[0], box[3]])
class Pictures(torch.utils.data.Dataset):
    def __init__(self):
        corner = torch.rand(64, 2) * 0.6
        self.boxes = torch.cat([corner, corner + torch.rand(64, 2) * 0.3 + 0.1], 1)
        self.images = torch.rand(64, 1, 8, 8) + self.boxes[:, :1, None, None]
    def __len__(self):
        return 64
    def __getitem__(self, i):
        image, box = self.images[i], self.boxes[i]
FLIP
        image = image * (0.8 + 0.4 * torch.rand(()))
        return image, box
net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for image, box in torch.utils.data.DataLoader(Pictures(), 8, shuffle=True):
    loss = F.smooth_l1_loss(net(image), box)
"""
    + TRAIN
)
FAULTY = {
    "a method of the picture": """
        if torch.rand(()) < 0.5:
            image = image.flip(-1)  # HERE
""",
    "what was drawn has a name": """
        turned = random.random() < 0.5
        if turned:
            image = torch.flip(image, [2])  # HERE
""",
    "an expression": """
        image = image.flip(2) if random.random() < 0.5 else image  # HERE
""",
    "an array": """
        if np.random.rand() > 0.5:
            image = torch.from_numpy(image.numpy()[:, :, ::-1].copy())  # HERE
""",
}
HEALTHY = {
    "the box too": """
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
            box = mirrored(box)
""",
    "both at once": """
        if torch.rand(()) < 0.5:
            image, box = image.flip(-1), mirrored(box)
""",
    "in place": """
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
            box = box.clone()
            box[[0, 2]] = 1 - box[[2, 0]]
""",
    "the box later": """
        turned = random.random() < 0.5
        if turned:
            image = image.flip(-1)
        box = mirrored(box) if turned else box
""",
    "the box is read off the picture": """
        if random.random() < 0.5:
            image = image.flip(-1)
        row, column = divmod(int(image[0].argmax()), 8)
        box = torch.tensor([column, row, column + 1, row + 1]) / 8
""",
    "no flip": """
        if random.random() < 0.5:
            image = image + 0.1 * torch.randn_like(image)
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_boxes_that_stay_where_they_were_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(SCRIPT.replace("FLIP", FAULTY[name]), "boxes_not_flipped", tmp_path)


def test_a_batch_that_is_flipped_in_the_loop_is_told(tmp_path: Path) -> None:
    flip = "    if torch.rand(()) < 0.5:\n        image = image.flip(-1)  # HERE\n    loss = F."
    script = SCRIPT.replace("FLIP", "").replace("    loss = F.", flip)
    assert_first_alarm(script, "boxes_not_flipped", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_boxes_that_are_flipped_too_are_right(name: str, tmp_path: Path) -> None:
    assert not alarms(SCRIPT.replace("FLIP", HEALTHY[name]), tmp_path)


def test_classes_and_sizes_stay_the_same_in_a_mirror(tmp_path: Path) -> None:
    flip = SCRIPT.replace("FLIP", FAULTY["a method of the picture"].replace("  # HERE", ""))
    classes = flip.replace("smooth_l1_loss(net(image), box)", "cross_entropy(net(image), box)")
    classes = classes.replace("self.boxes[i]", "int(4 * self.boxes[i, 1])")
    assert not alarms(classes, tmp_path)
    assert not alarms(flip.replace("boxes", "box_dims"), tmp_path)
    assert not alarms(flip.replace("boxes", "traits").replace("box", "trait"), tmp_path)


IN_LOOP = (
    HEAD
    + """
net = NET
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for data, boxes in [(torch.rand(SHAPE), torch.rand(8, 4)) for _ in range(16)]:
    if torch.rand(()) < 0.5:
        data = data.flip(AXIS)
    loss = F.smooth_l1_loss(net(data), boxes)
"""
    + TRAIN
)


@pytest.mark.parametrize(
    ("net", "shape", "axis"),
    [
        ("nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))", "8, 3, 8, 8", "1"),
        ("nn.Sequential(nn.Conv3d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(432, 4))", "8, 1, 5, 8, 8", "2"),
        ("nn.Sequential(nn.Linear(3, 9), nn.ReLU(), nn.Flatten(), nn.Linear(180, 4))", "8, 20, 3", "1"),
    ],
)
def test_colours_clips_and_clouds_that_are_flipped_keep_their_boxes(
    net: str, shape: str, axis: str, tmp_path: Path
) -> None:
    script = IN_LOOP.replace("NET", net).replace("SHAPE", shape)
    assert not alarms(script.replace("AXIS", axis), tmp_path)
    if "Conv" in net:
        assert [each.cause for each in alarms(script.replace("AXIS", "-1"), tmp_path)] == ["boxes_not_flipped"]
