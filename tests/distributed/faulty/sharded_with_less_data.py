"""Expected: uneven_steps."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
mesh = init_device_mesh("cpu", (2,))
for m in (model[0], model[2], model):
    fully_shard(m, mesh=mesh)
opt = torch.optim.AdamW(model.parameters())
torch.manual_seed(rank)
loader = torch.utils.data.DataLoader(torch.randn(10 if rank == 0 else 7, 8), batch_size=2)
for _epoch in range(2):  # <- cause
    for x in loader:
        loss = model(x).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
dist.barrier()
dist.destroy_process_group()
