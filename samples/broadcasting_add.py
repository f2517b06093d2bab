"""A row added to every row of a matrix: forward repeats the row, backward sums its gradients."""

import torch

matrix = torch.zeros(3, 4, requires_grad=True)
row = torch.ones(4, requires_grad=True)

total = (matrix + row).sum()
total.backward()

assert matrix.grad.shape == (3, 4)
assert row.grad.tolist() == [3, 3, 3, 3]
