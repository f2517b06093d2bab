import torch
import torch.nn as nn


class GradClip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        ctx.limit = limit
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-ctx.limit, ctx.limit), None


torch.manual_seed(0)
a, b = nn.Linear(5, 8), nn.Linear(8, 1)
opt = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)
for _ in range(3):
    x = torch.randn(10, 5)
    loss = b(GradClip.apply(a(x), 0.01)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
