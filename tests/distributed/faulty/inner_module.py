"""Expected: replicas_drifted."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())


def loss_of(net, x):
    return (net(x) - 1).pow(2).mean()  # <- cause


for x in torch.randn(4, 8, 4):
    optimizer.zero_grad()
    loss_of(model.module, x).backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
