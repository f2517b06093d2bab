"""A trainable tensor as an attribute."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)
        self.gain = torch.ones(1, requires_grad=True)  # guilty

    def forward(self, x):
        return self.fc(x) * self.gain


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(5, 4)).square().mean().backward()
    opt.step()
