"""A layer on another rank is called by RPC, and distributed autograd differentiates it."""

import os
import sys
from types import ModuleType

import torch
import torch.distributed.rpc as rpc
from torch.distributed import autograd as dist_autograd
from torch.distributed.optim import DistributedOptimizer


class Layer:
    def __init__(self):
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        return (x @ self.weight).tanh()

    def reference(self):
        return rpc.RRef(self.weight)

    def values(self):
        return self.weight.flatten().tolist()


# Objects that are sent name the module of their class, which the process that gets them must have.
module = sys.modules["remote_layers"] = ModuleType("remote_layers")
module.Layer = Layer
Layer.__module__ = "remote_layers"
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
if rank == 0:
    remote = rpc.remote("worker1", Layer)
    own = torch.nn.Parameter(torch.eye(4))
    optimizer = DistributedOptimizer(torch.optim.SGD, [remote.rpc_sync().reference(), rpc.RRef(own)], lr=0.1)
    torch.manual_seed(1)
    for x in torch.randn(3, 2, 4):
        with dist_autograd.context() as context:
            loss = (remote.rpc_sync().forward(x @ own) - 1).pow(2).mean()
            dist_autograd.backward(context, [loss])
            optimizer.step(context)
    print("parameter", rank, "own", own.flatten().tolist())
    print("parameter", rank, "remote", remote.rpc_sync().values())
rpc.shutdown()
