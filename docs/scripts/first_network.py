import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
inputs, labels = torch.randn(8, 4), torch.randint(3, (8,))

logits = model(inputs)
loss = nn.functional.cross_entropy(logits, labels)
loss.backward()
