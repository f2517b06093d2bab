"""One training step of a small network: the first graph to look at."""

import torch
from torch import nn

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
inputs = torch.randn(8, 4)
labels = torch.randint(0, 3, (8,))

logits = model(inputs)
loss = nn.functional.cross_entropy(logits, labels)
loss.backward()
