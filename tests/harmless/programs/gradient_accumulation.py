"""Gradients of four small batches are added up before each step; the same tensors are kept and added to."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
identities = []
for _ in range(10):
    for micro_batch in range(4):
        before = model.weight.grad
        (model(torch.randn(5, 4)).square().mean() / 4).backward()
        identities.append(before is model.weight.grad)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
assert identities == [False] + [True] * 39
