"""Operations that choose: max, min, abs and where send the gradient only to the chosen elements."""

import torch

x = torch.tensor([-2.0, 1.0, 3.0], requires_grad=True)
y = torch.tensor([4.0, 5.0, 6.0], requires_grad=True)

largest = x.max()
smallest = y.min()
distance = x.abs().sum()
chosen = torch.where(x > 0, x, y).sum()

loss = largest + smallest + distance + chosen
loss.backward()

assert x.grad.tolist() == [0 - 1 + 0, 0 + 1 + 1, 1 + 1 + 1]
assert y.grad.tolist() == [1 + 1, 0, 0]
