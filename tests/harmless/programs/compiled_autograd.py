"""Compiled autograd: backward itself is traced and compiled."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 2)
with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
    model(torch.randn(4, 3)).sum().backward()
model(torch.randn(4, 3)).sum().backward()
