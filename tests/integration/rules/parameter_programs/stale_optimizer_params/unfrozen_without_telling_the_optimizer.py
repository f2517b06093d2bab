"""Unfrozen without telling the optimizer."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
net[0].requires_grad_(False)
opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad])
net[0].requires_grad_(True)  # guilty
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(5, 4)).square().mean().backward()
    opt.step()
