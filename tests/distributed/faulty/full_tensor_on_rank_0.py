"""Expected: collective_on_some_ranks."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
for m in (model[0], model[2], model):
    fully_shard(m, mesh=mesh)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(rank)
for step in range(4):
    loss = model(torch.randn(4, 8)).pow(2).mean()
    loss.backward()
    opt.step()
    if rank == 0 and step % 2 == 1:
        norm = model[0].weight.full_tensor().norm()  # <- cause
        print("weight norm", norm.item())
    opt.zero_grad()
dist.destroy_process_group()
