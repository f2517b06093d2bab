import torch
from torch import nn

import gradviz

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
gradviz.watch(model, every=10)

for _ in range(100):
    inputs = torch.randn(64, 8)
    loss = (model(inputs).squeeze(1) - inputs.sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
