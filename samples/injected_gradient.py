"""An additional gradient enters in the middle of a network and is added to the gradient from the loss."""

import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Linear(4, 3)
decoder = nn.Linear(3, 1)
inputs = torch.randn(8, 4)

code = torch.tanh(encoder(inputs))
loss = decoder(code).square().mean()

from_elsewhere = torch.ones_like(code)
torch.autograd.backward([loss, code], [None, from_elsewhere], retain_graph=True)

(expected,) = torch.autograd.grad(loss + code.sum(), encoder.weight)
assert torch.allclose(encoder.weight.grad, expected)
