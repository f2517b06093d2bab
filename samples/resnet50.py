"""One training step of a residual network built like ResNet-50, narrow and on small images."""

import torch
from torch import Tensor, nn

torch.manual_seed(0)

WIDTH = 16
BLOCKS_IN_STAGE = (3, 4, 6, 3)


class Bottleneck(nn.Module):
    """Three convolutions beside a shortcut."""

    expansion = 4

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        channels_out = width * self.expansion
        self.conv1 = nn.Conv2d(channels_in, width, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, channels_out, kernel_size=1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels_in != channels_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(channels_out),
            )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += shortcut
        return self.relu(out)


class ResNet(nn.Module):
    """Stem, four stages of bottlenecks, classifier."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTH, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTH)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.channels = WIDTH
        self.layer1 = self._stage(0, stride=1)
        self.layer2 = self._stage(1, stride=2)
        self.layer3 = self._stage(2, stride=2)
        self.layer4 = self._stage(3, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(self.channels, classes)

    def _stage(self, number: int, stride: int) -> nn.Sequential:
        width = WIDTH * 2**number
        blocks = []
        for position in range(BLOCKS_IN_STAGE[number]):
            blocks.append(Bottleneck(self.channels, width, stride if position == 0 else 1))
            self.channels = width * Bottleneck.expansion
        return nn.Sequential(*blocks)

    def forward(self, images: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


model = ResNet()
images = torch.randn(2, 3, 64, 64)
labels = torch.randint(0, 10, (2,))

loss = nn.functional.cross_entropy(model(images), labels)
loss.backward()
