"""backward() multiplies slopes along each path, and adds where paths meet."""

import math

import torch

x = torch.tensor(2.0, requires_grad=True)
y = torch.tensor(3.0, requires_grad=True)
product = x * y
result = torch.sin(product) + product  # product is used twice: two paths
result.backward()

slope = math.cos(6.0) + 1  # of the result at product: one term for each path
assert math.isclose(x.grad, slope * 3.0, rel_tol=1e-6)  # times the slope of x * y at x, which is y
assert math.isclose(y.grad, slope * 2.0, rel_tol=1e-6)
