"""A multilayer perceptron of 100 layers whose sizes are all different from their neighbours."""

import random
from itertools import pairwise

import torch
from torch import nn

torch.manual_seed(0)

drawn = random.Random(0)
sizes = [drawn.randint(2, 40) for _ in range(101)]
layers = []
for size, following in pairwise(sizes):
    layers += [nn.Linear(size, following), nn.Tanh()]
model = nn.Sequential(*layers)
inputs = torch.randn(4, sizes[0])

loss = model(inputs).square().mean()
loss.backward()
