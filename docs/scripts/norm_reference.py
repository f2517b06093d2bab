import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8, eps=1e-12), nn.GELU(), nn.Linear(8, 1))
loss = model(0.01 * torch.randn(16, 8)).square().mean()
loss.backward()
