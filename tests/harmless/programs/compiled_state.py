"""Compiled code with state that a second run of its backward could touch: dropout, batch norm, hooks, kept graphs."""

import shutil

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
seen = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        x = torch.dropout(self.norm(self.first(x)), 0.3, self.training)
        x = checkpoint(lambda h: torch.tanh(h) * torch.rand_like(h), x, use_reentrant=False)
        return self.last(x)


def train(backend):
    net = Net()
    compiled = torch.compile(net, backend=backend)
    net.first.weight.register_hook(lambda gradient: seen.append(gradient.norm().item()))
    net.last.bias.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.norm().item()))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        x = torch.randn(5, 4, requires_grad=True)
        loss = compiled(x).square().mean()
        loss.backward(retain_graph=backend == "aot_eager")
        if backend == "aot_eager":
            loss.backward()
            seen.append(torch.autograd.grad(compiled(x).sum(), x)[0].norm().item())
        optimizer.step()
    return net


nets = [train("aot_eager")]
if shutil.which("g++"):
    nets.append(train("inductor"))
