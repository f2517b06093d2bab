"""A bias far below zero: no unit of the ReLU is ever active, so parameters before it get zero gradients."""

import torch
from torch import nn

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
with torch.no_grad():
    model[2].bias.fill_(-10)
inputs = torch.randn(16, 4)
labels = torch.randint(0, 3, (16,))

loss = nn.functional.cross_entropy(model(inputs), labels)
loss.backward()

assert model[4].bias.grad.any()
assert not any(parameter.grad.any() for parameter in model[:4].parameters())
