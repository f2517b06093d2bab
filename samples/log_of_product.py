"""The logarithm of a product, and its two gradients by the chain rule."""

import torch

x = torch.tensor(2.0, requires_grad=True)
y = torch.tensor(5.0, requires_grad=True)

product = x * y
result = torch.log(product)
result.backward()

# d(result)/d(product) = 1 / product; times y for x, and times x for y.
assert torch.isclose(x.grad, torch.tensor(1 / 2.0))
assert torch.isclose(y.grad, torch.tensor(1 / 5.0))
