"""Hooks on all modules, registered and removed while the program runs."""

import torch
from torch import nn
from torch.nn.modules import module as every_module

torch.manual_seed(0)
calls = []
handles = [
    every_module.register_module_forward_pre_hook(lambda module, args: calls.append(("before", type(module).__name__))),
    every_module.register_module_forward_hook(lambda module, args, out: calls.append(("after", type(module).__name__))),
    every_module.register_module_full_backward_hook(lambda *_: calls.append(("backward",))),
]
model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
model(torch.randn(2, 3)).sum().backward()
for handle in handles:
    handle.remove()
model(torch.randn(2, 3)).sum().backward()
