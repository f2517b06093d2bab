"""A weight is part of the graph; weight.data has the same numbers and is not."""

import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
weight = torch.tensor([3.0, 4.0], requires_grad=True)

with_weight = (x * weight).sum()
with_data = (x * weight.data).sum()

loss = with_weight + with_data
loss.backward()

assert x.grad.tolist() == [3 + 3, 4 + 4]
assert weight.grad.tolist() == [1, 2]
