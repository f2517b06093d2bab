"""A forward pass without backward: the graph is that of the tensors at the end of the script."""

import torch
from torch import nn

torch.manual_seed(0)

encoder = nn.Sequential(nn.Linear(6, 4), nn.Tanh())
mean_head = nn.Linear(4, 2)
spread_head = nn.Linear(4, 2)

code = encoder(torch.randn(3, 6))
mean = mean_head(code)
spread = nn.functional.softplus(spread_head(code))
