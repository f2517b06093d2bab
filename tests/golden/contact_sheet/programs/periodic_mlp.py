"""A multilayer perceptron of 100 layers whose sizes come again after every seven."""

import torch
from torch import nn

torch.manual_seed(0)

layers = []
for number in range(100):
    layers += [nn.Linear(2 + number % 7, 2 + (number + 1) % 7), nn.Tanh()]
model = nn.Sequential(*layers)
inputs = torch.randn(4, 2)

loss = model(inputs).square().mean()
loss.backward()
