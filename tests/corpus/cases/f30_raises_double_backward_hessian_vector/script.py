import torch
from torch.autograd.function import once_differentiable


class StepScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def hvp(loss, w, v):
    g, = torch.autograd.grad(loss, w, create_graph=True)
    return torch.autograd.grad(g @ v, w)[0]


torch.manual_seed(0)
w = torch.randn(6, requires_grad=True)
X = torch.randn(20, 6)
loss = StepScale.apply(X @ w).pow(2).mean()
print(hvp(loss, w, torch.ones(6)))
