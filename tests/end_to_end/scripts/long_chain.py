"""A chain of as many operations as the argument says, backward through all of it, and a word at the end."""

import sys

import torch

x = weight = torch.ones(1, requires_grad=True)
for _ in range(int(sys.argv[1])):
    x = x + 1
loss = x.sum()
loss.backward()
print("gradient", weight.grad.item())
