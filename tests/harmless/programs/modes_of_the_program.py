"""Function modes and dispatch modes of the program, one in another, that see and change what is called."""

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

torch.manual_seed(0)
functions, operators = [], []


class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        functions.append((getattr(func, "__name__", str(func)), len(args), sorted(kwargs or {})))
        if func is torch.sin:
            func = torch.cos
        return func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        operators.append(str(func))
        return func(*args, **(kwargs or {}))


model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.GELU())
for enter_first, enter_next in ((Functions, Operators), (Operators, Functions)):
    with enter_first(), enter_next():
        x = torch.randn(2, 3, requires_grad=True)
        loss = torch.sin(model(x)).sum()
        loss.backward()
        torch.autograd.grad(model(x).sum(), [x, model[0].weight])
with Functions():
    loss = torch.sin(model(x)).sum()
loss.backward()
with torch.device("meta"):
    nowhere = torch.empty(3)
torch.set_default_device("cpu")
modes = torch.overrides._get_current_function_mode_stack()
del modes
