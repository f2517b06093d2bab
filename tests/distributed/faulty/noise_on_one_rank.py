"""Expected: replicas_drifted."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank + 1)
for step, x in enumerate(torch.randn(3, 2, 4)):
    optimizer.zero_grad()
    loss = (model(x) - 1).pow(2).mean()
    loss.backward()
    optimizer.step()
    if rank == 1 and step == 0:
        with torch.no_grad():
            model.module[0].weight += 0.01  # <- cause
dist.barrier()
dist.destroy_process_group()
