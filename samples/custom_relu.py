"""A ReLU written as a custom autograd.Function, with forward and backward."""

import torch


class MyReLU(torch.autograd.Function):
    """Lets through what is positive, and the gradient in the same places."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (x > 0)


torch.manual_seed(0)
inputs = torch.randn(8, 4)
targets = torch.randn(8, 1)
w1 = torch.randn(4, 16, requires_grad=True)
w2 = torch.randn(16, 1, requires_grad=True)

predictions = MyReLU.apply(inputs @ w1) @ w2
loss = (predictions - targets).pow(2).mean()
loss.backward()

expected = torch.autograd.grad(((inputs @ w1).relu() @ w2 - targets).pow(2).mean(), w1)[0]
assert torch.allclose(w1.grad, expected)
