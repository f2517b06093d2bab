"""What the program lets go is freed at once: tensors, graphs, modules and what a custom context holds."""

import gc
import weakref

import torch
from torch import nn

gc.disable()
torch.manual_seed(0)
references = []


def watched(value):
    references.append(weakref.ref(value))
    return value


for _ in range(3):
    model = watched(nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
    x = watched(torch.randn(2, 3, requires_grad=True))
    out = watched(model(x))
    loss = watched(out.sum())
    loss.backward()
    gradient = watched(x.grad)
    del model, x, out, loss, gradient
alive = [reference() is not None for reference in references]
gc.enable()
