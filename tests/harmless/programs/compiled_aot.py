"""torch.compile through AOTAutograd, whole graph and dynamic shapes, with backward compiled as well."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 1))
compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
losses = []
for step in range(10):
    optimizer.zero_grad()
    loss = compiled(torch.randn(3 + step // 5, 4)).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())


@torch.compile(backend="aot_eager")
def penalty(x):
    return x.square().sum().sqrt()


x = torch.randn(3, requires_grad=True)
(penalty(x) + x.sum()).backward()


@torch._dynamo.disable
def outside(x):
    return x.cos()


@torch.compile(backend="aot_eager")
def broken(x):
    return outside(x.sin()).tan()


broken(x).sum().backward()
