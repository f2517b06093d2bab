"""Threads train one shared model without locks: what comes out differs from run to run, but everybody gets there."""

import threading

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
steps = []


def train(number):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for _ in range(10):
        optimizer.zero_grad(set_to_none=False)  # torch crashes where one thread drops a .grad that another reads
        model(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
    steps.append(10)


model(torch.ones(4, 3)).square().sum().backward()
threads = [threading.Thread(target=train, args=(number,), name=f"hogwild {number}") for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
is_finite = bool(torch.isfinite(model.weight).all())
model = threads = None  # their values are up to chance
