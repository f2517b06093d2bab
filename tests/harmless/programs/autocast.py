"""Autocast to bfloat16 with a gradient scaler, nested and switched off inside."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
dtypes = []
for step in range(10):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(torch.randn(3, 4))
        dtypes.append(out.dtype)
        with torch.autocast("cpu", enabled=False):
            loss = out.float().square().mean()
    scaler.scale(loss).backward()
    if step == 4:
        model[0].weight.grad[0, 0] = float("inf")
    scaler.step(optimizer)
    scaler.update()
scale = scaler.get_scale()
