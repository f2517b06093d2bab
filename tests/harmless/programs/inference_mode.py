"""Inference mode, no_grad, set_grad_enabled and inference tensors around a training step."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 3)
with torch.inference_mode():
    features = model(torch.randn(2, 3))
    nested = features * 2
with torch.no_grad():
    frozen = model(torch.ones(2, 3))
    with torch.enable_grad():
        alive = model(torch.ones(2, 3))
alive.sum().backward()
try:
    model(features).sum().backward()
except RuntimeError as error:
    message = str(error)
model(features.clone()).sum().backward()
torch.set_grad_enabled(False)
off = model(frozen)
torch.set_grad_enabled(True)
modes = [torch.is_inference_mode_enabled(), torch.is_grad_enabled()]
