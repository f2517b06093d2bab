import torch
from torch import nn

torch.manual_seed(0)
trunk, heads = nn.Linear(8, 16), nn.ModuleList([nn.Linear(16, 1), nn.Linear(16, 1)])
inputs = torch.randn(32, 8)
hidden = torch.tanh(trunk(inputs))

regression = (heads[0](hidden).squeeze(1) - inputs.sum(1)).square().mean()
contrary = (heads[1](hidden).squeeze(1) + inputs.sum(1)).square().mean()
loss = regression + 0.1 * contrary
loss.backward()
