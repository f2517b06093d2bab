import torch
import torch.nn as nn


class BinaryLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.sign().t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_x = grad_w = None
        if ctx.needs_input_grad[0]:
            grad_x = grad @ weight.sign()
            grad_w = grad.t() @ x
        return grad_x, grad_w


class Layer(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(b, a) * 0.1)
        self.bias = nn.Parameter(torch.zeros(b))

    def forward(self, x):
        return BinaryLinear.apply(x, self.weight) + self.bias


torch.manual_seed(0)
layer = Layer(9, 4)
opt = torch.optim.SGD(layer.parameters(), lr=0.01)
x, y = torch.randn(16, 9), torch.randn(16, 4)
for _ in range(5):
    loss = (layer(x) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
