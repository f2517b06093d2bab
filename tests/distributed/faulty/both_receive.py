"""Expected: no_progress."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
layer = torch.nn.Linear(4, 4)
for x in torch.randn(3, 2, 4):
    h = layer(x)
    h.pow(2).mean().backward()
    other = torch.empty(2, 4)
    dist.recv(other, 1 - rank)  # <- cause
    dist.send(h.detach(), 1 - rank)
dist.destroy_process_group()
