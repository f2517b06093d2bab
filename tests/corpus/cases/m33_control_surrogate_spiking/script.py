import torch
import torch.nn as nn


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).float()

    @staticmethod
    def backward(ctx, g):
        v, = ctx.saved_tensors
        return g / (1 + 10 * v.abs()) ** 2


torch.manual_seed(0)
fc1, fc2 = nn.Linear(6, 20), nn.Linear(20, 3)
opt = torch.optim.Adam([*fc1.parameters(), *fc2.parameters()], lr=1e-2)
for step in range(3):
    x, y = torch.rand(12, 6), torch.randint(0, 3, (12,))
    mem, out = torch.zeros(12, 20), torch.zeros(12, 3)
    for t in range(6):
        mem = 0.9 * mem + fc1(x)
        s = Spike.apply(mem - 1.0)
        mem = mem - s.detach()
        out = out + fc2(s)
    loss = nn.functional.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
