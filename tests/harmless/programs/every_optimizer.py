"""Ten steps with each optimizer of torch, those that call a closure several times included."""

import torch
from torch import nn

NAMES = ["SGD", "Adam", "Adagrad", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "LBFGS"]
results, calls = {}, {}
for name in NAMES:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.02)
    inputs = torch.randn(7, 3)
    calls[name] = 0

    def closure():
        optimizer.zero_grad()
        calls[name] += 1
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure)) for _ in range(10)]
    results[name] = (model, optimizer, losses)
