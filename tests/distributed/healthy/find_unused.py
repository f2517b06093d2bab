"""A head that one rank does not use, as DistributedDataParallel was told."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)

    def forward(self, x):
        h = self.body(x).tanh()
        return self.head(h) if dist.get_rank() == 0 else h


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(Net(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank + 1)
for x in torch.randn(3, 2, 4):
    optimizer.zero_grad()
    loss = (model(x) - 1).pow(2).mean()
    loss.backward()
    optimizer.step()
for name, parameter in model.named_parameters():
    print("parameter", rank, name, getattr(parameter, "to_local", lambda p=parameter: p)().flatten().tolist())
dist.barrier()
dist.destroy_process_group()
