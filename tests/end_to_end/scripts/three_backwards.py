"""Calls backward three times, on graphs of one, two and three multiplications, and then says so."""

import torch

weight = torch.ones(2, requires_grad=True)
for step in (1, 2, 3):
    x = weight
    for _ in range(step):
        x = x * 2
    loss = x.sum()
    loss.backward()
    print("did step", step)
print("the end")
