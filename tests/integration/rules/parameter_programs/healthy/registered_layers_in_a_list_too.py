"""Registered layers in a list, too."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.order = [self.b, self.a]

    def forward(self, x):
        for layer in self.order:
            x = layer(x)
        return x


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(5, 4)).square().mean().backward()
    opt.step()
