"""One training step of a diffusion model: a small network predicts the noise, told the time by an embedding."""

import math

import torch
from torch import Tensor, nn

torch.manual_seed(0)


class Block(nn.Module):
    """A residual block that is shifted by the embedded time."""

    def __init__(self, channels_in: int, channels_out: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, channels_in), nn.GroupNorm(4, channels_out)
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1)
        self.time = nn.Linear(time, channels_out)
        self.shortcut = nn.Conv2d(channels_in, channels_out, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        hidden = self.conv1(nn.functional.silu(self.norm1(x)))
        hidden = hidden + self.time(time)[:, :, None, None]
        return self.shortcut(x) + self.conv2(nn.functional.silu(self.norm2(hidden)))


class Denoiser(nn.Module):
    """One step down, one step up, with a skip."""

    def __init__(self, width: int = 8, time: int = 16) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = Block(width, width, time)
        self.shrink = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.middle = Block(width, 2 * width, time)
        self.grow = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.up = Block(2 * width, width, time)
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: Tensor, steps: Tensor) -> Tensor:
        frequencies = torch.exp(-math.log(1000.0) * torch.arange(4) / 4)
        angles = steps[:, None] * frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        x = self.first(x)
        skip = self.down(x, time)
        x = self.middle(self.shrink(skip), time)
        return self.last(self.up(torch.cat([self.grow(x), skip], dim=1), time))


model = Denoiser()
images = torch.randn(2, 3, 8, 8)
noise = torch.randn_like(images)
steps = torch.randint(0, 1000, (2,)).float()
kept = torch.cos(steps / 1000 * math.pi / 2)[:, None, None, None]
noisy = kept.sqrt() * images + (1 - kept).sqrt() * noise

loss = nn.functional.mse_loss(model(noisy, steps), noise)
loss.backward()
