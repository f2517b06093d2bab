import torch
import torch.nn as nn


class ResNetish(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, classes)

    def forward(self, x):
        return self.fc(torch.relu(self.bn(self.conv(x))).mean((2, 3)))


def build(classes):
    net = ResNetish()
    net.fc = nn.Linear(8, classes)
    for p in net.parameters():
        p.requires_grad_(False)
    return net


torch.manual_seed(0)
net = build(5)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x, y = torch.randn(8, 3, 6, 6), torch.randint(0, 5, (8,))
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
