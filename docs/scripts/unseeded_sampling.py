import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
generator = torch.Generator()
generator.seed()  # another seed in every run
inputs = torch.randn(16, 4, generator=generator)
loss = model(inputs).square().mean()
loss.backward()
