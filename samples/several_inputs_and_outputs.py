"""Two inputs and three outputs of one graph; unbind is an operation with two outputs."""

import torch

base = torch.tensor([3.0, 4.0], requires_grad=True)
height = torch.tensor(2.0, requires_grad=True)

width, length = base.unbind()
diagonal = torch.sqrt(width**2 + length**2)
area = width * length
volume = area * height

torch.autograd.backward([diagonal, area, volume])

assert (diagonal, area, volume) == (5, 12, 24)
assert torch.allclose(base.grad, torch.tensor([3 / 5 + 4 + 8, 4 / 5 + 3 + 6]))
assert height.grad == 12
