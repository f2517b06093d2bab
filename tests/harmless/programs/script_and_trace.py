"""torch.jit: scripted and traced modules, trained and saved."""

import io
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore", DeprecationWarning)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
scripted = torch.jit.script(model)
traced = torch.jit.trace(model, torch.randn(2, 3))
for each in (scripted, traced, model):
    for _ in range(3):
        each(torch.randn(2, 3)).sum().backward()
# Names in traced graphs come from local variables of whoever calls, which need not be the program.
graphs = [str(torch._C._jit_pass_canonicalize(each.inlined_graph, False)) for each in (scripted, traced)]
buffer = io.BytesIO()
torch.jit.save(traced, buffer)
buffer.seek(0)
again = torch.jit.load(buffer)
again(torch.randn(2, 3)).sum().backward()


@torch.jit.script
def scaled(x, n: int):
    for _ in range(n):
        x = x * 0.5 + x.sin()
    return x


x = torch.randn(3, requires_grad=True)
scaled(x, 3).sum().backward()
del scripted, traced, again, each, buffer
