"""Expected: collective_on_some_ranks."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank + 1)


def report(loss):
    if rank != 0:
        return
    dist.all_reduce(loss)  # <- cause
    print("mean loss", loss.item() / size)


for x in torch.randn(2, 2, 4):
    optimizer.zero_grad()
    loss = (model(x) - 1).pow(2).mean()
    loss.backward()
    optimizer.step()
report(loss.detach())
dist.barrier()
dist.destroy_process_group()
