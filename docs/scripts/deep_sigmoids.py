import torch
from torch import nn

torch.manual_seed(0)
layers = [layer for _ in range(8) for layer in (nn.Linear(32, 32), nn.Sigmoid())]
model = nn.Sequential(*layers, nn.Linear(32, 1))

loss = model(torch.randn(64, 32)).square().mean()
loss.backward()
