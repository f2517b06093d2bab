"""MAML on sine waves, with the second derivative through the inner steps."""

import math

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
meta = torch.optim.Adam(model.parameters(), lr=1e-3)


def task():
    amplitude, phase = torch.rand(1) * 4.9 + 0.1, torch.rand(1) * math.pi
    x = torch.rand(20, 1) * 10 - 5
    y = amplitude * torch.sin(x + phase)
    return (x[:10], y[:10]), (x[10:], y[10:])


for iteration in range(60):
    meta.zero_grad()
    total = 0.0
    for _ in range(4):
        (sx, sy), (qx, qy) = task()
        fast = dict(model.named_parameters())
        for _ in range(3):
            inner = F.mse_loss(functional_call(model, fast, (sx,)), sy)
            grads = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
            fast = {name: p - 0.01 * g for (name, p), g in zip(fast.items(), grads, strict=True)}
        total = total + F.mse_loss(functional_call(model, fast, (qx,)), qy)
    loss = total / 4
    loss.backward()
    meta.step()
    if iteration % 25 == 0:
        print(iteration, loss.item())
