"""Expected: uneven_steps."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(torch.nn.Linear(4, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(rank)
data, target = torch.randn(64, 4), torch.randn(64, 1) * (1 + 3 * rank)
best, bad = float("inf"), 0
for epoch in range(50):  # <- cause
    for i in range(0, 64, 32):
        opt.zero_grad()
        loss = (model(data[i : i + 32]) - target[i : i + 32]).pow(2).mean()
        loss.backward()
        opt.step()
    with torch.no_grad():
        val = (model.module(data) - target).pow(2).mean().item() + (epoch if rank else 0)
    if val < best:
        best, bad = val, 0
    else:
        bad += 1
        if bad >= 3:
            break
dist.barrier()
dist.destroy_process_group()
