"""With create_graph=True, backward itself is recorded, and can be differentiated."""

import torch

x = torch.tensor(2.0, requires_grad=True)
cube = x**3

(first,) = torch.autograd.grad(cube, x, create_graph=True)
assert first == 12  # 3 x²
assert first.requires_grad and first.grad_fn is not None  # the gradient has a graph of its own

first.backward()
assert x.grad == 12  # 6 x

# Without it the gradient is a constant.
(constant,) = torch.autograd.grad(x**3, x)
assert constant == 12 and not constant.requires_grad
