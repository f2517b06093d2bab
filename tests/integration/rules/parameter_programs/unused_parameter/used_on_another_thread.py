"""A part of the forward pass on another thread, and cut off there."""

import threading

import torch
from torch import nn

encoder, head = nn.Linear(4, 6), nn.Linear(6, 2)  # guilty
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
features = []


def encode() -> None:
    features.append(encoder(torch.ones(3, 4)).detach())


for _ in range(2):
    thread = threading.Thread(target=encode)
    thread.start()
    thread.join()
    optimizer.zero_grad()
    head(features.pop()).sum().backward()
    optimizer.step()
