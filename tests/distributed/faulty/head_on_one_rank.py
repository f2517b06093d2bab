"""Expected: unused_on_some_ranks."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)

    def forward(self, x, is_labelled):
        h = self.body(x).tanh()
        return self.head(h) if is_labelled else h  # <- cause


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(Net())
torch.manual_seed(rank + 1)
for step in range(3):
    model(torch.randn(2, 4), is_labelled=step == 0 or rank == 0).mean().backward()
dist.barrier()
dist.destroy_process_group()
