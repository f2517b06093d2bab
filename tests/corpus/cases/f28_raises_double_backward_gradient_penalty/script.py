import torch
import torch.nn as nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class FastTanh(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        y, = ctx.saved_tensors
        return g * (1 - y ** 2)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.o = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.o(FastTanh.apply(self.w(x)))


torch.manual_seed(0)
critic = Critic()
opt = torch.optim.Adam(critic.parameters())
for _ in range(2):
    x = torch.randn(10, 3, requires_grad=True)
    score = critic(x)
    g, = torch.autograd.grad(score.sum(), x, create_graph=True)
    loss = score.mean() + (g.norm(dim=1) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
