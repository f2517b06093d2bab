"""A part of the forward pass under no_grad: the layers before it are not trained."""

import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Linear(4, 8)
bottleneck = nn.Linear(8, 2)
decoder = nn.Linear(2, 4)
inputs = torch.randn(16, 4)

features = torch.relu(encoder(inputs))
with torch.no_grad():
    code = torch.sigmoid(bottleneck(features))
outputs = decoder(code)

loss = nn.functional.mse_loss(outputs, inputs)
loss.backward()

assert decoder.weight.grad is not None
assert bottleneck.weight.grad is None
assert encoder.weight.grad is None
