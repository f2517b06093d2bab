"""DTensors, and redistributions of them that the program asks for itself."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
mesh = init_device_mesh("cpu", (size,))
first = torch.nn.Parameter(distribute_tensor(torch.randn(4, 8), mesh, [Shard(1)]))
last = torch.nn.Parameter(distribute_tensor(torch.randn(8, 4), mesh, [Shard(0)]))
optimizer = torch.optim.SGD([first, last], lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    x = distribute_tensor(torch.randn(8, 4), mesh, [Shard(0)])
    h = x.redistribute(mesh, [Replicate()]) @ first
    y = (h.tanh() @ last).redistribute(mesh, [Shard(0)])
    loss = (y - 1).pow(2).sum()
    loss.full_tensor().backward()
    optimizer.step()
for name, parameter in (("first", first), ("last", last)):
    print("parameter", rank, name, parameter.to_local().flatten().tolist())
dist.barrier()
dist.destroy_process_group()
