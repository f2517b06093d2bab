"""The gradients of sign and ceil are zero everywhere; a comparison and argmax have none at all."""

import torch

x = torch.tensor([-1.5, 0.5, 2.5], requires_grad=True)

signs = torch.sign(x)
ceilings = torch.ceil(x)
positive = x > 0
winner = torch.argmax(x)

assert signs.requires_grad and ceilings.requires_grad
assert not positive.requires_grad and not winner.requires_grad

loss = (signs + ceilings + positive + winner).sum()
loss.backward()

assert x.grad.tolist() == [0, 0, 0]
