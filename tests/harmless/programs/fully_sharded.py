"""Fully sharded training over gloo in one process, on the processor."""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

torch.manual_seed(0)
meeting = tempfile.TemporaryDirectory()
dist.init_process_group("gloo", init_method=(Path(meeting.name) / "meet").as_uri(), rank=0, world_size=1)
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
mesh = init_device_mesh("cpu", (1,))
for part in (model[0], model[2], model):
    fully_shard(part, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(10):
    optimizer.zero_grad()
    loss = model(torch.randn(2, 3)).square().sum()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
weights = [parameter.to_local().detach().clone() for parameter in model.parameters()]
dist.destroy_process_group()
meeting.cleanup()
del model, optimizer, mesh, meeting, part, loss
