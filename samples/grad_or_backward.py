"""Gradients of x1 ** 2 + 5 * x2 two ways: returned by grad(), or added to every leaf by backward()."""

import torch

x1 = torch.tensor(3.0, requires_grad=True)
x2 = torch.tensor(4.0, requires_grad=True)

y = x1**2 + 5 * x2

(from_grad,) = torch.autograd.grad(y, x1, retain_graph=True)
assert from_grad == 6
assert x1.grad is None and x2.grad is None

y.backward()
assert (x1.grad, x2.grad) == (6, 5)
