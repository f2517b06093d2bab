"""Several threads compute and call backward at once, each with a model of its own; one fails."""

import threading

import torch
from torch import nn

torch.manual_seed(0)
models = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in range(4)]
inputs = [torch.randn(5, 3) for _ in models]
barrier = threading.Barrier(len(models))
errors = {}


def train(number):
    barrier.wait()
    optimizer = torch.optim.SGD(models[number].parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        models[number](inputs[number]).square().sum().backward()
        optimizer.step()
    if number == 2:
        loss = models[number](inputs[number]).sum()
        loss.backward()
        try:
            loss.backward()
        except RuntimeError as error:
            errors[number] = str(error)


threads = [threading.Thread(target=train, args=(number,), name=f"worker {number}") for number in range(len(models))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
w = torch.randn(3, requires_grad=True)
loss = (w * 2).sin().sum()
caller = threading.Thread(target=loss.backward, name="calls backward")
caller.start()
caller.join()
