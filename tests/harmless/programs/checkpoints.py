"""Checkpoints of both kinds, one in another, with dropout; every forward is counted."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(0)
forwards = []


class Block(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name
        self.linear = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.4)

    def forward(self, x):
        forwards.append(self.name)
        return torch.relu(self.dropout(self.linear(x)))


blocks = nn.ModuleList([Block(str(number)) for number in range(6)])


def nested(x):
    return checkpoint(blocks[3], checkpoint(blocks[2], x, use_reentrant=False), use_reentrant=False)


for _ in range(3):
    x = torch.randn(3, 4, requires_grad=True)
    x = checkpoint(blocks[0], x, use_reentrant=True)
    x = checkpoint(blocks[1], x, use_reentrant=False, preserve_rng_state=False)
    x = checkpoint(nested, x, use_reentrant=False)
    x = checkpoint_sequential(nn.Sequential(blocks[4], blocks[5]), 2, x, use_reentrant=False)
    x.square().sum().backward()
after = torch.rand(3)
