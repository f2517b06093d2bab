"""A linear function y = w * x + b: leaves keep their gradient, computed tensors only after retain_grad()."""

import torch

x = torch.tensor(3.0)
w = torch.tensor(2.0, requires_grad=True)
b = torch.tensor(1.0, requires_grad=True)

scaled = w * x
scaled.retain_grad()
y = scaled + b
seen = []
y.register_hook(seen.append)

assert w.is_leaf and b.is_leaf and not scaled.is_leaf and not y.is_leaf
y.backward(torch.tensor(10.0))

assert (w.grad, b.grad) == (30, 10)
assert scaled.grad == 10
assert seen == [10]
