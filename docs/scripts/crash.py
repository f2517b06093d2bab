import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
inputs = torch.randn(5, 6)
hidden = model[1](model[0](inputs))
hidden += 1  # in place: ReLU saved its result for backward
loss = model[2](hidden).sum()
loss.backward()
