import torch
import torch.nn as nn
from torch.autograd import Function


class QuickLinear(Function):
    @staticmethod
    def forward(ctx, inp, weight):
        ctx.save_for_backward(inp, weight)
        return inp.mm(weight.t())

    @staticmethod
    def backward(ctx, g):
        inp, weight = ctx.saved_tensors
        grad_in = g.mm(weight)
        grad_w = inp.t().mm(g)
        return grad_in, grad_w


class Quick(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n, n) / n ** 0.5)

    def forward(self, x):
        return QuickLinear.apply(x, self.weight)


torch.manual_seed(0)
layer, out = Quick(6), nn.Linear(6, 1)
opt = torch.optim.Adam([*layer.parameters(), *out.parameters()])
for _ in range(3):
    x = torch.randn(12, 6)
    loss = (out(torch.tanh(layer(x))) - x[:, :1]).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
