"""One rank of a training with DDP, as a launcher starts it."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", init_method=f"file://{os.environ['STORE']}", rank=int(os.environ["RANK"]), world_size=2)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
for _ in range(3):
    model(torch.randn(8, 4)).pow(2).mean().backward()
own = getattr(sys.modules["sitecustomize"], "OWN", "none of its own")
sys.stdout.write(f"rank {os.environ['RANK']} sees {own}\n")  # in one piece: both ranks write to one pipe
dist.destroy_process_group()
