"""Expected: uneven_steps."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
layer = torch.nn.Linear(4, 4)
for x in torch.randn(3 - rank, 2, 4):  # <- cause
    if rank == 0:
        h = layer(x)
        dist.send(h.detach(), 1)
        gradient = torch.empty_like(h)
        dist.recv(gradient, 1)
        h.backward(gradient)
    else:
        received = torch.empty(2, 4)
        dist.recv(received, 0)
        received.requires_grad_()
        layer(received).pow(2).mean().backward()
        dist.send(received.grad, 0)
dist.barrier()
dist.destroy_process_group()
