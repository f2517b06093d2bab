"""A tied weight that is replaced."""

import torch
from torch import nn

torch.manual_seed(0)
e, out = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
out.weight = e.weight
e.weight = nn.Parameter(torch.randn(9, 4))  # guilty
opt = torch.optim.SGD([e.weight, out.weight], lr=0.1)
for _ in range(3):
    opt.zero_grad()
    out(e(torch.arange(9))).square().mean().backward()
    opt.step()
