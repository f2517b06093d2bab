"""Displacements in pixels that are brought to another grid, with and without the factor between the two."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PYRAMID = """
def warp(image, flow):
    b, _, h, w = image.shape
    {grid}
    return F.grid_sample(image, grid, align_corners=True)
class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList(nn.Conv2d(4, 2, 3, padding=1) for _ in range(3))
    def forward(self, first, second):
        flow, flows = first.new_zeros(len(first), 2, 4, 4), []
        for k, level in enumerate(self.levels):
            a, b = (F.adaptive_avg_pool2d(each, 4 * 2 ** k) for each in (first, second))
            if k:
                {up}
            flow = flow + level(torch.cat([a, warp(b, flow), flow], dim=1))
            flows.append(flow)
        return flows
net = Pyramid()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(3):
    first, second, target = torch.rand(4, 1, 16, 16), torch.rand(4, 1, 16, 16), torch.randn(4, 2, 16, 16)
    flows = net(first, second)
    loss = sum((f - F.adaptive_avg_pool2d(target, f.shape[-1]) * {scale}).abs().mean() for f in flows)
"""
PIXELS = """ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    grid = torch.stack([2 * (xs + flow[:, 0]) / (w - 1) - 1, 2 * (ys + flow[:, 1]) / (h - 1) - 1], dim=-1)"""
BASE = """base = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing="xy")).float()
    grid = (base[None].repeat(b, 1, 1, 1) + flow).permute(0, 2, 3, 1) * 2 / torch.tensor([w - 1, h - 1]) - 1"""
SHARES = """ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
    grid = torch.stack([xs + flow[:, 0], ys + flow[:, 1]], dim=-1)"""
OF_LEVEL = "f.shape[-1] / 16"
PLAIN = "flow = F.interpolate(flow, scale_factor=2, mode='bilinear')"
ITERATIVE = """
net, read = nn.Conv2d(3, 2, 3, padding=1), nn.Conv2d(2, 1, 4, stride=4)
optimizer = torch.optim.Adam([*net.parameters(), *read.parameters()], lr=0.01)
for step in range(3):
    pair, target = torch.rand(4, 2, 16, 16), torch.randn(4, 2, 16, 16)
    start = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="xy")).float().repeat(4, 1, 1, 1)
    place, loss = start.clone(), 0
    for k in range(2):
        place = place + net(torch.cat([read(pair), place - start], dim=1))
        {up}
        loss = loss + 0.8 ** (1 - k) * (flow - target).abs().mean()
"""
FAULTY = (
    PYRAMID.format(grid=PIXELS, up=PLAIN + "  # HERE", scale=OF_LEVEL),
    PYRAMID.format(grid=BASE, up="flow = nn.Upsample(scale_factor=2)(flow)  # HERE", scale=OF_LEVEL),
    ITERATIVE.format(up="flow = F.interpolate(place - start, size=(16, 16), mode='bilinear')  # HERE"),
)
HEALTHY = (
    PYRAMID.format(grid=PIXELS, up="flow = 2 * " + PLAIN.partition("= ")[2], scale=OF_LEVEL),
    PYRAMID.format(grid=BASE, up="flow = F.interpolate(flow * 2, scale_factor=2)", scale=OF_LEVEL),
    PYRAMID.format(grid=SHARES, up=PLAIN, scale="1"),
    ITERATIVE.format(up="flow = 4 * F.interpolate(place - start, size=(16, 16), mode='bilinear')"),
    ITERATIVE.format(
        up="flow = F.interpolate(place - start, size=(16, 16))\n        flow[:, 0] *= 4\n        flow[:, 1] *= 4"
    ),
)


@pytest.mark.parametrize("script", FAULTY)
def test_displacements_that_keep_their_values_are_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script + TRAIN, "flow_enlarged_only", tmp_path)


@pytest.mark.parametrize("script", HEALTHY)
def test_displacements_with_their_factor_are_right(script: str, tmp_path: Path) -> None:
    assert "flow_enlarged_only" not in {each.cause for each in alarms(HEAD + script + TRAIN, tmp_path)}
