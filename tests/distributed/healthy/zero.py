"""Each rank has the optimizer's state of a part of the parameters, and sends what it made of them to the others."""

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
model = DistributedDataParallel(net)
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.1)
torch.manual_seed(rank + 1)
for x in torch.randn(3, 2, 4):
    optimizer.zero_grad()
    loss = (model(x) - 1).pow(2).mean()
    loss.backward()
    optimizer.step()
for name, parameter in net.named_parameters():
    print("parameter", rank, name, parameter.flatten().tolist())
dist.barrier()
dist.destroy_process_group()
