"""A compiled transformer of two layers: forward is one node of the graph, beside which all parameters stand."""

import torch
from torch import nn

torch.manual_seed(0)

layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, 1))
compiled = torch.compile(model, backend="aot_eager")
inputs = torch.randn(2, 5, 16)

loss = compiled(inputs).square().mean()
loss.backward()
