"""A convolution as unfold, matrix product and fold, and the same by conv2d."""

import torch
from torch.nn import functional as F

torch.manual_seed(0)
images = torch.randn(2, 3, 8, 8, requires_grad=True)
kernels = torch.randn(5, 3, 3, 3, requires_grad=True)

patches = F.unfold(images, kernel_size=3)  # each column is one 3 x 3 patch of all channels
products = kernels.flatten(start_dim=1) @ patches
by_hand = F.fold(products, output_size=(6, 6), kernel_size=1)

by_conv2d = F.conv2d(images, kernels)

ones = torch.ones_like(by_hand)
torch.autograd.backward([by_hand, by_conv2d], [ones, ones])

assert torch.allclose(by_hand, by_conv2d, atol=1e-4)
for tensor in (images, kernels):
    (alone,) = torch.autograd.grad(F.conv2d(images, kernels), tensor, ones)
    assert torch.allclose(tensor.grad, 2 * alone, atol=1e-3)
