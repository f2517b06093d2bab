"""Expected: collective_order."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(torch.nn.Linear(4, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)


def load(step):
    if rank == 1 and step == 2:
        raise OSError("disk read failed")
    return torch.randn(4, 4)


for step in range(5):
    try:
        x = load(step)
        opt.zero_grad()
        model(x).pow(2).mean().backward()
        opt.step()
    except OSError as error:
        print("ignored", error)
    total = torch.tensor([float(step)])
    dist.all_reduce(total)  # <- cause
dist.destroy_process_group()
