"""An affine layer with complex numbers, and a real loss."""

import torch

torch.manual_seed(0)
signal = torch.randn(8, 4, dtype=torch.complex64)
weight = torch.randn(4, 2, dtype=torch.complex64, requires_grad=True)
bias = torch.zeros(2, dtype=torch.complex64, requires_grad=True)

spectrum = signal @ weight + bias
power = spectrum.abs().square()
loss = power.mean()
loss.backward()

assert weight.grad.is_complex() and bias.grad.is_complex()
assert not loss.is_complex()
# A small step against the gradient lowers the loss.
stepped = signal @ (weight - 0.01 * weight.grad) + (bias - 0.01 * bias.grad)
assert stepped.abs().square().mean() < loss
