"""The blocks of diffusion models, written out: a U-Net with time and text, and a transformer that time modulates."""

# What calling a module gives has no type.
# mypy: no-warn-return-any
from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from tests.zoo.family import Family, Subject

DROPOUT = 0.1


def time_embedding(times: torch.Tensor, width: int) -> torch.Tensor:
    """Sines and cosines of the step, shape ``[batch, width]``."""
    frequencies = torch.exp(-math.log(10_000) * torch.arange(width // 2) / (width // 2))
    angles = times[:, None] * frequencies[None]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class ResidualBlock(nn.Module):
    """Two convolutions, between which the time is added."""

    def __init__(self, channels_in: int, channels: int, time_width: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(4, channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.time = nn.Linear(time_width, channels)
        self.norm2 = nn.GroupNorm(4, channels)
        self.dropout = nn.Dropout(DROPOUT)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.skip = nn.Conv2d(channels_in, channels, 1) if channels_in != channels else nn.Identity()

    def forward(self, image: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        hidden = self.conv1(F.silu(self.norm1(image)))
        hidden = hidden + self.time(F.silu(time))[:, :, None, None]
        return self.skip(image) + self.conv2(self.dropout(F.silu(self.norm2(hidden))))


class SpatialAttention(nn.Module):
    """Every place of the image looks at every other one, and at a text."""

    def __init__(self, channels: int, text_width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.own = nn.MultiheadAttention(channels, 2, dropout=DROPOUT, batch_first=True)
        self.cross = nn.MultiheadAttention(
            channels, 2, dropout=DROPOUT, kdim=text_width, vdim=text_width, batch_first=True
        )
        self.norm_cross = nn.LayerNorm(channels)

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        places = self.norm(image).flatten(2).transpose(1, 2)
        places = places + self.own(places, places, places, need_weights=False)[0]
        places = places + self.cross(self.norm_cross(places), text, text, need_weights=False)[0]
        return image + places.transpose(1, 2).reshape(image.shape)


class UNet(nn.Module):
    """Down, through the middle, and up again with what was on the way down."""

    def __init__(self, width: int = 8, text_width: int = 12) -> None:
        super().__init__()
        widths = (width, 2 * width, 4 * width)
        time_width = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time_width), nn.SiLU(), nn.Linear(time_width, time_width))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(
            ResidualBlock(before, after, time_width) for before, after in zip((width, *widths), widths, strict=False)
        )
        self.smaller = nn.ModuleList(nn.Conv2d(each, each, 3, stride=2, padding=1) for each in widths)
        self.middle = ResidualBlock(widths[-1], widths[-1], time_width)
        self.attention = SpatialAttention(widths[-1], text_width)
        self.up = nn.ModuleList(
            ResidualBlock(before + skip, skip, time_width)
            for before, skip in zip((widths[-1], *reversed(widths)), reversed(widths), strict=False)
        )
        self.norm = nn.GroupNorm(4, width)
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, image: torch.Tensor, times: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        time = self.time(time_embedding(times, self.width))
        hidden, skips = self.first(image), []
        for block, smaller in zip(self.down, self.smaller, strict=True):
            hidden = block(hidden, time)
            skips.append(hidden)
            hidden = smaller(hidden)
        hidden = self.attention(self.middle(hidden, time), text)
        for block in self.up:
            hidden = torch.cat([F.interpolate(hidden, scale_factor=2.0), skips.pop()], dim=1)
            hidden = block(hidden, time)
        return self.last(F.silu(self.norm(hidden)))


class ModulatedBlock(nn.Module):
    """A transformer block whose norms are shifted, scaled and gated by the time (adaLN-Zero)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False)
        self.attention = nn.MultiheadAttention(width, 4, dropout=DROPOUT, batch_first=True)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Dropout(DROPOUT), nn.Linear(4 * width, width)
        )
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, patches: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(time)[:, None].chunk(6, dim=2)
        hidden = self.norm1(patches) * (1 + scale1) + shift1
        patches = patches + gate1 * self.attention(hidden, hidden, hidden, need_weights=False)[0]
        hidden = self.norm2(patches) * (1 + scale2) + shift2
        return patches + gate2 * self.mlp(hidden)


class DiffusionTransformer(nn.Module):
    """Patches of a noisy image, through blocks that know the time."""

    def __init__(self, width: int = 32, blocks: int = 4) -> None:
        super().__init__()
        self.width = width
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.position = nn.Parameter(torch.randn(1, 16, width) * 0.02)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(ModulatedBlock(width) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.last = nn.ConvTranspose2d(width, 3, 4, stride=4)

    def forward(self, image: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        time = self.time(time_embedding(times, self.width))
        patches = self.patches(image).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            patches = block(patches, time)
        grid = self.norm(patches).transpose(1, 2).unflatten(2, (4, 4))
        return self.last(grid)


def _unet() -> Subject:
    text = torch.randn(2, 5, 12)
    return Subject(
        UNet().train(), {"image": torch.randn(2, 3, 16, 16), "times": torch.tensor([3.0, 70.0]), "text": text}
    )


def _transformer() -> Subject:
    return Subject(
        DiffusionTransformer().train(), {"image": torch.randn(2, 3, 16, 16), "times": torch.tensor([3.0, 70.0])}
    )


FAMILIES = (
    Family("U-Net", "diffusion", _unet),
    Family("diffusion transformer", "diffusion", _transformer),
)
