"""Concatenating tensors: backward splits the gradient, one part for each tensor."""

import torch

image = torch.ones(2, 3, requires_grad=True)
text = torch.ones(2, 2, requires_grad=True)

both = torch.cat([image, text], dim=1)
loss = (both * torch.arange(5)).sum()
loss.backward()

assert image.grad.tolist() == [[0, 1, 2]] * 2
assert text.grad.tolist() == [[3, 4]] * 2
