"""The first rank sends activations to the second one, which sends their gradient back; further ranks are pairs, too."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
layer = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
torch.manual_seed(0)
for x in torch.randn(3, 2, 4):
    optimizer.zero_grad()
    if rank % 2 == 0:
        h = layer(x)
        dist.send(h.detach(), rank + 1)
        gradient = torch.empty_like(h)
        dist.recv(gradient, rank + 1)
        h.backward(gradient)
    else:
        received = torch.empty(2, 4)
        dist.recv(received, rank - 1)
        received.requires_grad_()
        loss = (layer(received) - 1).pow(2).mean()
        loss.backward()
        dist.send(received.grad, rank - 1)
    optimizer.step()
for name, parameter in layer.named_parameters():
    print("parameter", rank, name, parameter.flatten().tolist())
dist.barrier()
dist.destroy_process_group()
