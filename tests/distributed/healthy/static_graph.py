"""Buckets are the gradients themselves, the graph is static, and a part is computed again."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

    def forward(self, x):
        return self.last(checkpoint(self.first, x, use_reentrant=False).tanh())


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(Net(), static_graph=True, gradient_as_bucket_view=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank + 1)
for x in torch.randn(3, 2, 4):
    optimizer.zero_grad()
    (model(x) - 1).pow(2).mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
for name, parameter in model.named_parameters():
    print("parameter", rank, name, getattr(parameter, "to_local", lambda p=parameter: p)().flatten().tolist())
dist.barrier()
dist.destroy_process_group()
