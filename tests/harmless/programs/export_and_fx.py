"""torch.export and torch.fx: what is traced is the program's and nothing else."""

import torch
from torch import fx, nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
exported = torch.export.export(model, (torch.randn(2, 3),))
text = str(exported.graph)
traced = fx.symbolic_trace(model)
code = traced.code
made = torch.fx.experimental.proxy_tensor.make_fx(lambda x: model(x).sin())(torch.randn(2, 3))
made_code = made.code
for each in (exported.module(), traced, model):
    each(torch.randn(2, 3)).sum().backward()
del exported, traced, made, each
