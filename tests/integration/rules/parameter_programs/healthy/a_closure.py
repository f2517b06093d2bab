"""A closure."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.LBFGS(net.parameters(), max_iter=3)


def closure():
    opt.zero_grad()
    loss = net(torch.randn(5, 4)).square().mean()
    loss.backward()
    return loss


for _ in range(2):
    opt.step(closure)
