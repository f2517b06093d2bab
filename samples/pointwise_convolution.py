"""A convolution with a 1 x 1 kernel, and the same as a linear layer applied to every pixel."""

import torch
from torch import nn

torch.manual_seed(0)
convolution = nn.Conv2d(3, 8, kernel_size=1)
linear = nn.Linear(3, 8)
with torch.no_grad():
    linear.weight.copy_(convolution.weight.flatten(start_dim=1))
    linear.bias.copy_(convolution.bias)

images = torch.randn(2, 3, 6, 6)
convolved = convolution(images)
mapped = linear(images.movedim(1, -1)).movedim(-1, 1)

ones = torch.ones_like(convolved)
torch.autograd.backward([convolved, mapped], [ones, ones])

assert torch.allclose(convolved, mapped, atol=1e-5)
assert torch.allclose(convolution.weight.grad.flatten(start_dim=1), linear.weight.grad, atol=1e-4)
