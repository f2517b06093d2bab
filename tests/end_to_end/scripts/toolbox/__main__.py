"""``python -m toolbox``: prints what a module that is run can see of itself."""

import sys

import torch

from .parts import SCALE

weight = torch.ones(2, requires_grad=True)
(weight * SCALE).sum().backward()
print(__name__, __package__, __spec__.name, __spec__.parent, __file__, sys.argv, sys.path[0], weight.grad.tolist())
