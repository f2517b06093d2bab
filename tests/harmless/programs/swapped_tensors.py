"""Tensors whose contents are swapped: by themselves, and where modules are converted or loaded in place."""

import torch
from torch import nn

torch.manual_seed(0)
data, other = torch.randn(3), torch.randn(3)
weight = torch.randn(3, requires_grad=True)
(data * weight + other).sum().backward()
torch.utils.swap_tensors(data, other)
(data * weight).sum().backward()

torch.__future__.set_swap_module_params_on_conversion(True)
model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
model[0].requires_grad_(False)
state = {name: value.double() for name, value in model.state_dict().items()}
kept = model[2].weight
model(torch.randn(5, 3)).sum().backward()
model.zero_grad()
model.double()
assert model[2].weight is kept
model.load_state_dict(state)
model(torch.randn(5, 3).double()).sum().backward()
torch.__future__.set_swap_module_params_on_conversion(False)
