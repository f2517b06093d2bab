"""backward inside backward: in a hook, in a custom function; and grad inside a forward."""

import torch
from torch import nn

torch.manual_seed(0)
inner = nn.Linear(2, 1)
calls = []


class Solves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(y.exp().sum(), y)
        ctx.save_for_backward(x)
        return gradient

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            y.exp().sum().backward()
        calls.append("solved")
        return gradient * y.grad


x = torch.randn(3, requires_grad=True)


def hook(gradient):
    calls.append("hook")
    inner(torch.ones(1, 2)).sum().backward()
    return gradient


h = x * 2
h.register_hook(hook)
for _ in range(2):
    Solves.apply(h).sum().backward(retain_graph=True)
