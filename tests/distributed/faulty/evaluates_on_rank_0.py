"""Expected: collective_on_some_ranks."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
model = DDP(net)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)


def train(epoch):
    model.train()
    for x in torch.randn(3, 8, 4):
        opt.zero_grad()
        model(x).pow(2).mean().backward()
        opt.step()


def evaluate():
    total = 0.0
    for x in torch.randn(2, 8, 4):
        total += model(x).pow(2).mean().item()  # <- cause
    return total


for epoch in range(3):
    train(epoch)
    if rank == 0:
        print("eval", evaluate())
dist.destroy_process_group()
