"""A result that is overwritten."""

import torch
from torch import nn

torch.manual_seed(0)
a, b, out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)
net = nn.ModuleList([a, b, out])
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def forward(x):
    h = torch.relu(a(x))
    h = torch.relu(b(x))  # guilty
    return out(h)


for _ in range(3):
    opt.zero_grad()
    forward(torch.randn(5, 4)).square().mean().backward()
    opt.step()
