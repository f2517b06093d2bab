"""Grids of positions for ``grid_sample``: which of their coordinates comes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
net = nn.Conv2d(2, 2, 3, padding=1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
H, W = 8, 10
"""
)
LOOP = (
    """
for step in range(4):
    first = torch.rand(4, 1, H, W)
    second = first.roll(1, 3)
    flow = net(torch.cat([first, second], 1))
    loss = (warp(second, flow) - first).abs().mean()
"""
    + TRAIN
)
SPATIAL_TRANSFORMER = """
class Warp(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        grid = torch.stack(torch.meshgrid([torch.arange(n) for n in size], indexing="ij")){mark}
        self.register_buffer("grid", grid.unsqueeze(0).float())
    def forward(self, image, flow):
        places = self.grid + flow
        for axis, n in enumerate(self.size):
            places[:, axis] = 2 * (places[:, axis] / (n - 1) - 0.5)
        places = places.permute(0, 2, 3, 1)
        {turn}
        return F.grid_sample(image, places, align_corners=True)
warp = Warp((H, W))
"""
BY_REPEATING = """
def warp(image, flow):
    b, _, h, w = image.shape
    xx = torch.arange(w).view(1, -1).repeat(h, 1).view(1, 1, h, w).repeat(b, 1, 1, 1)
    yy = torch.arange(h).view(-1, 1).repeat(1, w).view(1, 1, h, w).repeat(b, 1, 1, 1)
    grid = torch.cat(({pair}), 1).float() + flow{mark}
    grid[:, 0] = 2 * grid[:, 0].clone() / (w - 1) - 1
    grid[:, 1] = 2 * grid[:, 1].clone() / (h - 1) - 1
    return F.grid_sample(image, grid.permute(0, 2, 3, 1), align_corners=True)
"""
IN_XY = """
def warp(image, flow):
    b, _, h, w = image.shape
    xs, ys = torch.meshgrid(torch.linspace(-1, 1, w), torch.linspace(-1, 1, h), indexing="xy")
    base = torch.stack([{pair}], -1)[None]{mark}
    return F.grid_sample(image, base.expand(b, h, w, 2) + flow.permute(0, 2, 3, 1), align_corners=False)
"""
FAULTY = {
    "stacked as meshgrid returns them": SPATIAL_TRANSFORMER.format(mark="  # HERE", turn="pass"),
    "joined along the channels": BY_REPEATING.format(pair="yy, xx", mark="  # HERE"),
    "the rows of a grid in xy first": IN_XY.format(pair="ys, xs", mark="  # HERE"),
}
HEALTHY = {
    "turned round before the call": SPATIAL_TRANSFORMER.format(mark="", turn="places = places[..., [1, 0]]"),
    "flipped before the call": SPATIAL_TRANSFORMER.format(mark="", turn="places = places.flip(-1)"),
    "columns joined first": BY_REPEATING.format(pair="xx, yy", mark=""),
    "columns of a grid in xy first": IN_XY.format(pair="xs, ys", mark=""),
    "the grid of a rotation": """
def warp(image, flow):
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, H), torch.linspace(-1, 1, W), indexing="ij")
    x, y = 0.8 * xs - 0.6 * ys, 0.6 * xs + 0.8 * ys
    return F.grid_sample(image, torch.stack([x, y], -1) + flow.permute(0, 2, 3, 1), align_corners=False)
""",
    "a trained table of features": """
table = nn.Parameter(torch.randn(1, 1, 12, 12))
optimizer.add_param_group({"params": [table]})
def warp(image, flow):
    u, v = torch.meshgrid(torch.linspace(-1, 1, H), torch.linspace(-1, 1, W), indexing="ij")
    return F.grid_sample(table, torch.stack([u, v], -1)[None], align_corners=False) * image + flow[:, :1]
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_coordinates_with_the_rows_first_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + LOOP, "grid_of_rows_first", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_grids_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name] + LOOP, tmp_path)
