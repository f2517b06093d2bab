"""200 branches of one input, added up."""

import torch
from torch import nn

torch.manual_seed(0)

stem = nn.Linear(8, 8)
branches = nn.ModuleList(nn.Linear(8, 1 + number % 5) for number in range(200))
inputs = torch.randn(4, 8)

hidden = torch.relu(stem(inputs))
loss = torch.cat([branch(hidden) for branch in branches], dim=1).square().mean()
loss.backward()
