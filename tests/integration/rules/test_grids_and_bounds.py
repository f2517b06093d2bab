"""Places in a grid, which are rounded beside the distance from them, and the bounds of a uniform density."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

GRID = """
net, table = nn.Linear(3, 1), nn.Parameter(torch.randn(12))
optimizer = torch.optim.SGD([*net.parameters(), table], lr=0.05)
for step in range(6):
    x = torch.randn(32, 3)
    place = net(x)[:, 0].sigmoid() * 9
    cell = {cell}
    rest = {rest}
    index = cell.detach().long().clamp(0, 10)
    read = {read}
    loss = F.mse_loss(read, x[:, 0])
"""
WEIGHED = "table[index] * (1 - rest) + table[index + 1] * rest"
POSTERIOR = """
loc, raw = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.full((3,), -2.0))
optimizer = torch.optim.Adam([loc, raw], lr=0.01)
x = torch.randn(32, 3)
Normal, Uniform = torch.distributions.Normal, torch.distributions.Uniform
for step in range(4):
    guide = Normal(loc, raw.exp())
    z = guide.rsample().sigmoid() * 10
    fit = Normal(0.0, z + 0.1).log_prob(x).sum()
    prior = {prior}
    loss = -(fit + prior) - guide.entropy().sum()
"""


@pytest.mark.parametrize(
    ("cell", "rest", "read"),
    [
        ("torch.floor((place - 0.5) / 0.9)", "(place - 0.5) / 0.9 - cell", WEIGHED),
        ("place.mul(1.1).floor()", "place * 1.1 - cell", WEIGHED),
        ("(place * 2).round()", "(place * 2 - cell).abs()", "table[index] + (1 - rest) * place"),
    ],
)
def test_the_distance_from_a_cell_of_a_grid_brings_the_gradient(
    cell: str, rest: str, read: str, tmp_path: Path
) -> None:
    assert alarms(HEAD + GRID.format(cell=cell, rest=rest, read=read) + TRAIN, tmp_path) == []


@pytest.mark.parametrize("rest", ["place / 9", "1 - cell"])
def test_a_rounded_place_that_is_read_itself_is_told(rest: str, tmp_path: Path) -> None:
    program = GRID.format(cell="torch.floor((place - 0.5) / 0.9)", rest=rest, read="table[index] * cell + place + rest")
    assert "zero_gradient_op" in [each.cause for each in alarms(HEAD + program + TRAIN, tmp_path)]


@pytest.mark.parametrize(
    "prior",
    [
        "Uniform(0.0, 10.0).log_prob(z).sum()",
        "Uniform(torch.zeros(3), torch.full((3,), 10.0)).log_prob(z).mean()",
        "((z > 0) & (z < 10)).float().log().sum()",
    ],
)
def test_the_density_of_a_uniform_distribution_is_a_constant(prior: str, tmp_path: Path) -> None:
    assert alarms(HEAD + POSTERIOR.format(prior=prior) + TRAIN, tmp_path) == []


@pytest.mark.parametrize("prior", ["(z > 5).float().mean()", "(1 + (z > 5).float().mean()).log()"])
def test_a_part_that_is_counted_is_told_as_a_term_without_gradient(prior: str, tmp_path: Path) -> None:
    found = [each.cause for each in alarms(HEAD + POSTERIOR.format(prior=prior) + TRAIN, tmp_path)]
    assert "term_without_gradient" in found


IMAGES = """
body, head = nn.Conv2d(1, 3, 3, padding=1), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
images, pixels, y = torch.randn(6, 1, 8, 8), torch.rand(6, 4, 1, 2) * 5 + 2, torch.randn(6, 4, 1)
for step in range(12):
    read = F.grid_sample(body(images), {grid}, align_corners=True)  # HERE
    loss = F.mse_loss(head(read[..., 0].transpose(1, 2)), y)
"""


def test_points_outside_of_the_image_are_told_as_such(tmp_path: Path) -> None:
    script = HEAD + IMAGES.format(grid="pixels") + TRAIN
    assert_first_alarm(script, "zero_gradient_op", tmp_path)
    assert "all points of the grid lie outside of -1 to 1" in alarms(script, tmp_path)[0].message


def test_points_outside_of_the_image_are_told_where_they_are_scaled(tmp_path: Path) -> None:
    scaled = IMAGES.replace("  # HERE", "").replace("    read =", "    points = 2 * pixels - 1  # HERE\n    read =")
    assert_first_alarm(HEAD + scaled.format(grid="points.flip(-1)") + TRAIN, "zero_gradient_op", tmp_path)


def test_points_inside_of_the_image_are_right(tmp_path: Path) -> None:
    assert alarms(HEAD + IMAGES.format(grid="2 * pixels / 7 - 1") + TRAIN, tmp_path) == []


NEAREST = """
net = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    image = torch.randn(6, 1, 8, 8)
    theta = torch.cat([torch.eye(2).repeat(6, 1, 1), torch.tanh(net(image))[..., None]], -1)
    grid = F.affine_grid(theta, image.shape, align_corners=False)
    moved = F.grid_sample(image, grid, mode="{mode}", align_corners=False)  # HERE
    loss = (moved - image.roll(1, -1)).square().mean()
"""


def test_the_nearest_points_of_an_image_pass_no_gradient_on_to_the_grid(tmp_path: Path) -> None:
    script = HEAD + NEAREST.format(mode="nearest") + TRAIN
    assert_first_alarm(script, "zero_gradient_op", tmp_path)
    assert "the nearest point" in alarms(script, tmp_path)[0].message
    assert alarms(HEAD + NEAREST.format(mode="bilinear") + TRAIN, tmp_path) == []
