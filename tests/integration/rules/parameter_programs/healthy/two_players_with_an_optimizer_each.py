"""Two players with an optimizer each."""

import torch
from torch import nn

torch.manual_seed(0)
g, d = nn.Linear(3, 2), nn.Linear(2, 1)
og, od = torch.optim.SGD(g.parameters(), lr=0.1), torch.optim.SGD(d.parameters(), lr=0.1)
for _ in range(3):
    fake = g(torch.randn(5, 3))
    od.zero_grad()
    d(fake.detach()).mean().backward()
    od.step()
    og.zero_grad()
    (-d(fake)).mean().backward()
    og.step()
