"""One training step of a transformer with 96 layers."""

import torch
from torch import nn

torch.manual_seed(0)

layer = nn.TransformerEncoderLayer(64, nhead=4, dim_feedforward=128, batch_first=True, norm_first=True)
model = nn.TransformerEncoder(layer, num_layers=96, enable_nested_tensor=False)
loss = model(torch.randn(2, 16, 64)).square().mean()
loss.backward()
