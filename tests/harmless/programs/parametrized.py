"""Parametrizations, weight norm, spectral norm, pruning, and cached ones."""

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

torch.manual_seed(0)
calls = []


class Symmetric(nn.Module):
    def forward(self, weight):
        calls.append("symmetric")
        return weight.triu() + weight.triu(1).transpose(-1, -2)


layer = nn.Linear(4, 4)
parametrize.register_parametrization(layer, "weight", Symmetric())
normed = parametrizations.weight_norm(nn.Linear(4, 3))
spectral = parametrizations.spectral_norm(nn.Linear(3, 3))
orthogonal = parametrizations.orthogonal(nn.Linear(3, 3))
pruned = prune.l1_unstructured(nn.Linear(3, 1), "weight", 0.5)
model = nn.Sequential(layer, normed, spectral, orthogonal, pruned)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
with parametrize.cached():
    model(torch.randn(2, 4)).sum().backward()
