"""A U-Net: every step down keeps a picture that the step up of the same size takes again."""

import torch
from torch import Tensor, nn

torch.manual_seed(0)


class DoubleConv(nn.Module):
    """Two convolutions."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.conv2(torch.relu(self.conv1(x))))


class UNet(nn.Module):
    """Three steps down, three steps up."""

    def __init__(self, widths: tuple[int, ...] = (4, 8, 16)) -> None:
        super().__init__()
        self.down = nn.ModuleList()
        channels = 3
        for width in widths:
            self.down.append(DoubleConv(channels, width))
            channels = width
        self.pool = nn.MaxPool2d(2)
        self.middle = DoubleConv(channels, 2 * channels)
        self.upsample, self.up = nn.ModuleList(), nn.ModuleList()
        for width in reversed(widths):
            self.upsample.append(nn.ConvTranspose2d(2 * width, width, 2, stride=2))
            self.up.append(DoubleConv(2 * width, width))
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = self.pool(x)
        x = self.middle(x)
        for upsample, block in zip(self.upsample, self.up, strict=True):
            x = block(torch.cat([skips.pop(), upsample(x)], dim=1))
        return self.head(x)


model = UNet()
images = torch.randn(2, 3, 32, 32)
masks = torch.randint(0, 2, (2, 32, 32))

loss = nn.functional.cross_entropy(model(images), masks)
loss.backward()
