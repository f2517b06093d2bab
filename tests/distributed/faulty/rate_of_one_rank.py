"""Expected: replicas_drifted."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
torch.manual_seed(rank + 1)
for x in torch.randn(4, 2, 4):
    optimizer.zero_grad()
    loss = (model(x) - 1).pow(2).mean()
    loss.backward()
    optimizer.step()  # <- cause
    scheduler.step(1.0 + rank * loss.detach())  # each rank looks at its own loss
dist.barrier()
dist.destroy_process_group()
