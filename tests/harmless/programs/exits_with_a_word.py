"""Ends with sys.exit in the middle, after at-exit functions were registered."""

import atexit
import sys

import torch

atexit.register(print, "the last word")
w = torch.ones(3, requires_grad=True)
(w * 2).sum().backward()
print("gradient", w.grad)
sys.exit("enough")
