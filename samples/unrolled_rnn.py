"""A recurrent network written as a loop, so that every time step is in the graph; the argument is the number (100)."""

import sys

import torch

torch.manual_seed(0)

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
from_input = torch.randn(4, 8, requires_grad=True)
from_hidden = (torch.randn(8, 8) / 8).requires_grad_()
bias = torch.zeros(8, requires_grad=True)

hidden = torch.zeros(2, 8)
for _ in range(steps):
    x = torch.randn(2, 4)
    hidden = torch.tanh(x @ from_input + hidden @ from_hidden + bias)

loss = hidden.square().mean()
loss.backward()
