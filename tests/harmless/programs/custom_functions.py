"""Functions of the program's own: both styles of forward, non-tensor arguments, in-place, nothing returned, a vmap."""

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

torch.manual_seed(0)
calls = []


class Old(Function):
    @staticmethod
    def forward(ctx, x, power):
        calls.append("old forward")
        ctx.save_for_backward(x)
        ctx.power = power
        ctx.set_materialize_grads(False)
        return x**power, x.sign()

    @staticmethod
    def backward(ctx, gradient, of_sign):
        calls.append(f"old backward {of_sign is None}")
        (x,) = ctx.saved_tensors
        return gradient * ctx.power * x ** (ctx.power - 1), None


class New(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        calls.append("new forward")
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        calls.append("setup")
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        calls.append("new backward")
        x, y = ctx.saved_tensors
        return (gradient * y if ctx.needs_input_grad[0] else None), (gradient * x if ctx.needs_input_grad[1] else None)


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient * 2


x = torch.randn(3, requires_grad=True)
apply = Old.apply
for _ in range(2):
    powered, sign = apply(x, 3)
    loss = New.apply(powered, x.detach()).sum() + InPlace.apply(x * 1).sum()
    loss.backward()
per_sample = torch.func.vmap(torch.func.grad(lambda v: New.apply(v, v).sum()))(torch.randn(2, 3))
powered, _ = apply(x, 2)
torch.autograd.grad(torch.autograd.grad(powered.sum(), x, create_graph=True)[0].sum(), x)


class Fails(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("not today")


try:
    Fails.apply(x).sum().backward()
except ValueError as error:
    message = str(error)
