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
    for parameter in model.parameters():
        if step == 1:
            parameter.grad.add_(torch.randn_like(parameter), alpha=0.01)  # <- cause
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
