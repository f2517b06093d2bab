"""The second derivative of a parabola: with create_graph the first derivative has a graph, too."""

import torch

a, b, c = 3.0, 2.0, 1.0
x = torch.tensor(5.0, requires_grad=True)

y = a * x**2 + b * x + c
(slope,) = torch.autograd.grad(y, x, create_graph=True)
(curvature,) = torch.autograd.grad(slope, x)

assert slope == 2 * a * x + b
assert curvature == 2 * a
