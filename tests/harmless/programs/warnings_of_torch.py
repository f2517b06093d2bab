"""Warnings of torch and of the program, with their lines, as often as they come, and turned into errors."""

import warnings

import torch
from torch import nn

x = torch.randn(2, 2, requires_grad=True)
hidden = x * 2
for _ in range(3):
    _ = hidden.grad  # torch warns: not a leaf
    warnings.warn("a warning of the program", stacklevel=1)
warnings.simplefilter("always")
for _ in range(2):
    torch.nn.functional.mse_loss(hidden, torch.zeros(2))
    nn.Softmax()(hidden)
loss = nn.functional.l1_loss(hidden, torch.zeros(2))
loss.backward(create_graph=True)


def layer(x):
    return nn.functional.mse_loss(x, torch.zeros(2))


layer(hidden).backward()
warnings.simplefilter("error")
try:
    layer(hidden)
except UserWarning as error:
    message = str(error)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    layer(x * 3).backward()
texts = [(str(each.message), each.filename.rpartition("/")[2], each.lineno, each.category.__name__) for each in caught]
