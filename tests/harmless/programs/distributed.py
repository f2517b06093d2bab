"""DistributedDataParallel over gloo in one process, with no_sync, unused parameters and a communication hook."""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    dist.init_process_group("gloo", init_method=(Path(folder) / "meet").as_uri(), rank=0, world_size=1)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    unused = nn.Linear(2, 2)
    model[0].register_module("unused", unused)
    parallel = DistributedDataParallel(model, find_unused_parameters=True)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    for step in range(10):
        optimizer.zero_grad()
        if step % 2:
            with parallel.no_sync():
                parallel(torch.randn(2, 3)).sum().backward()
        parallel(torch.randn(2, 3)).square().sum().backward()
        optimizer.step()
    total = torch.ones(2)
    dist.all_reduce(total)
    dist.destroy_process_group()
del folder, parallel
