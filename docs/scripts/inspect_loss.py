import torch
from torch import nn

import gradviz

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
loss = model(torch.randn(3, 4)).sum()

print(gradviz.inspect(loss, model=model).tree(width=80))
