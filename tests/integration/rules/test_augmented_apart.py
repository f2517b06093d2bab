"""Pictures and targets of their pixels that are flipped or cropped in two ways, or in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FLIPS = """
net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def augment(x, y):
    {first}
    {second}
    return x, y
for step in range(8):
    x = torch.randn(4, 1, 8, 8)
    y = (x > 0.3).long().squeeze(1)
    x, y = augment(x, y)
    loss = {loss}"""
ENTROPY = "F.cross_entropy(net(x), y)"
CROPS = """
class Pictures(torch.utils.data.Dataset):
    def __init__(self):
        self.pictures = torch.randn(24, 1, 12, 12)
        self.masks = (self.pictures > 0.3).float()
    def __len__(self):
        return 24
    def crop(self, x, place):
        i, j = place.tolist()
        return x[..., i : i + 8, j : j + 8]
    def __getitem__(self, k):
        place = torch.randint(0, 5, (2,))
        return {both}
net = nn.Conv2d(1, 1, 3, padding=1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader(Pictures(), 8, shuffle=True):
    loss = F.binary_cross_entropy_with_logits(net(x), y)"""
CHOSEN = """
net = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv2d(4, 1, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def flip(x, chosen):
    return torch.where(chosen.view(-1, 1, 1, 1), x.flip(3), x)
for step in range(8):
    x = torch.randn(4, 1, 8, 8)
    y = (x > 0.3).float()
    first, second = torch.rand(4) < 0.5, torch.rand(4) < 0.5
    {what}
    loss = F.binary_cross_entropy_with_logits(net(x), y)"""
TURNS = CROPS.replace(
    """    def crop(self, x, place):
        i, j = place.tolist()
        return x[..., i : i + 8, j : j + 8]
""",
    """    def turn(self, x):
        return torch.rot90(x.flip(2) if torch.rand(()) < 0.5 else x, int(torch.randint(4, ())), dims=(1, 2))
""",
)
APART = "self.crop(self.pictures[k], torch.randint(0, 5, (2,))), self.crop(self.masks[k], torch.randint(0, 5, (2,)))"
FAULTY = (
    FLIPS.format(first="if torch.rand(()) < 0.5: x = x.flip(-1)", loss=ENTROPY,
                 second="if torch.rand(()) < 0.5: y = y.flip(-1)  # HERE"),
    FLIPS.format(first="if step % 2: x = torch.flip(x, dims=(2,))  # HERE", second="pass", loss=ENTROPY),
    CROPS.format(both=f"{APART}  # HERE"),
    CHOSEN.format(what="x = torch.where(first.view(-1, 1, 1, 1), x.flip(3), x)\n"
                       "    y = torch.where(second[:, None, None, None], torch.flip(y, (3,)), y)  # HERE"),
    CHOSEN.format(what="x = flip(x, first)\n    y = flip(y, second)  # HERE"),
    CHOSEN.format(what="x[first] = x[first].flip(-1)\n    y[second] = y[second].flip(-1)  # HERE"),
    TURNS.format(both="self.turn(self.pictures[k]), self.turn(self.masks[k])  # HERE"),
    # One line flips both alike, and the next one only the picture.
    FLIPS.format(first="if torch.rand(()) < 0.5: x, y = x.flip(-1), y.flip(-1)", loss=ENTROPY,
                 second="if torch.rand(()) < 0.5: x = x.flip(-2)  # HERE"),
    # One line flips both, along axes that a mask counts otherwise.
    FLIPS.format(first="if torch.rand(()) < 0.5: x, y = x.flip(-1), y.flip(-1)", loss=ENTROPY,
                 second="if torch.rand(()) < 0.5: x, y = x.flip(2), y.flip(2)  # HERE"),
    CHOSEN.format(what="x = x.where(~first.view(-1, 1, 1, 1), x.flip(-2))  # HERE"),
)  # fmt: skip
HEALTHY = (
    TURNS.format(both="self.turn(torch.cat([self.pictures[k], self.masks[k]])).split(1)"),
    TURNS.format(both="torch.rot90(self.pictures[k], k, (1, 2)), torch.rot90(self.masks[k], k % 4, (1, 2))"),
    FLIPS.format(first="if torch.rand(()) < 0.5: x, y = x.flip(-1), y.flip(-1)", second="pass", loss=ENTROPY),
    FLIPS.format(first="if step % 2: x, y = x.flip((2, 3)), torch.flip(y, dims=(1, 2))", second="pass", loss=ENTROPY),
    # Turned back behind the model; always turned; a target for the whole picture.
    FLIPS.format(first="if step % 2: x = x.flip(-1)", second="pass",
                 loss="F.cross_entropy(net(x).flip(-1) if step % 2 else net(x), y)"),
    FLIPS.format(first="x = x.flip(-1)", second="pass", loss=ENTROPY),
    FLIPS.format(first="if step % 2: x = x.flip(-1)", second="y = y.flatten(1).float().mean(1)",
                 loss="F.mse_loss(net(x).mean((1, 2, 3)), y)"),
    CHOSEN.format(what="x, y = flip(x, first), flip(y, first)"),
    CHOSEN.format(what="x, y = flip(flip(x, first).mT, second).mT, flip(flip(y, first).mT, second).mT"),
    CHOSEN.format(what="x[first], y[first] = x[first].flip(-1), y[first].flip(-1)"),
    CHOSEN.format(what="x, y = flip(torch.cat([x, y], 1), first).chunk(2, dim=1)"),
    CROPS.format(both="self.crop(self.pictures[k], place), self.crop(self.masks[k], place)"),
    CROPS.format(both="self.crop(self.pictures[k], place - place), self.crop(self.masks[k], place - place + 2)"),
)  # fmt: skip


@pytest.mark.parametrize("script", FAULTY)
def test_an_augmentation_of_one_side_is_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script + TRAIN, "augmented_apart", tmp_path)


@pytest.mark.parametrize("script", HEALTHY)
def test_an_augmentation_of_both_sides_is_right(script: str, tmp_path: Path) -> None:
    assert "augmented_apart" not in {each.cause for each in alarms(HEAD + script + TRAIN, tmp_path)}


POINTS = """
import random
random.seed(1)
net = nn.Sequential(nn.Conv2d(2, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 25, 4), nn.Sigmoid())
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
stored, corners = torch.randn(32, 2, 12, 12), torch.rand(32, 2, 2)
for step in range(12):
    rows = torch.randint(0, 32, (8,))
    x, y = stored[rows], corners[rows]
    {flip}
    points = net(x).view(-1, 2, 2)
    {more}
    loss = F.smooth_l1_loss(points, y)"""
LEFT_BEHIND = {
    "by a mask": "chosen = (torch.rand(8) < 0.5).view(-1, 1, 1, 1)\n    x = torch.where(chosen, x.flip(-1), x)  # HERE",
    "in place": "chosen = torch.randint(0, 2, (8,)).bool()\n    x[chosen] = x[chosen].flip(3)  # HERE",
    "all of a batch": "if random.random() < 0.5:\n        x = torch.flip(x, dims=[-1])  # HERE",
}
TAKEN_ALONG = {
    "by a mask": (
        "chosen = torch.rand(8) < 0.5\n    x = torch.where(chosen[:, None, None, None], x.flip(-1), x)\n"
        "    y = torch.where(chosen[:, None, None], torch.stack([1 - y[..., 0], y[..., 1]], -1), y)",
        "pass",
    ),
    "in place": (
        "chosen = torch.rand(8) < 0.5\n    x[chosen] = x[chosen].flip(3)\n    y[chosen, :, 0] = 1 - y[chosen, :, 0]",
        "pass",
    ),
    "all of a batch": (
        "if random.random() < 0.5:\n        x = x.flip(-1)\n        y = torch.stack([1 - y[..., 0], y[..., 1]], -1)",
        "pass",
    ),
    "turned back": (
        "chosen = torch.rand(8) < 0.5\n    x = torch.where(chosen[:, None, None, None], x.flip(-1), x)",
        "points = torch.where(chosen[:, None, None], points * torch.tensor([-1, 1]) + torch.tensor([1, 0]), points)",
    ),
    "always": ("x = x.flip(-1)", "pass"),
}


@pytest.mark.parametrize("name", LEFT_BEHIND)
def test_points_that_stay_where_they_were_are_told(name: str, tmp_path: Path) -> None:
    script = HEAD + POINTS.format(flip=LEFT_BEHIND[name], more="pass") + TRAIN
    assert_first_alarm(script, "augmented_apart", tmp_path)


@pytest.mark.parametrize("name", TAKEN_ALONG)
def test_points_that_are_flipped_with_their_pictures_are_right(name: str, tmp_path: Path) -> None:
    flip, more = TAKEN_ALONG[name]
    assert alarms(HEAD + POINTS.format(flip=flip, more=more) + TRAIN, tmp_path) == []
