"""A chain of 60,000 operations, freed in every way."""

import torch

x = torch.ones(2, requires_grad=True)
for _ in range(2):
    y = x
    for _ in range(60_000):
        y = y + 1
    loss = y.sum()
    loss.backward()
del y, loss
