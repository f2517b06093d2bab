"""The last layer of a list left out."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def forward(x):
    for layer in net[:-1]:
        x = torch.relu(layer(x))  # guilty
    return x


for _ in range(3):
    opt.zero_grad()
    forward(torch.randn(5, 4)).square().mean().backward()
    opt.step()
