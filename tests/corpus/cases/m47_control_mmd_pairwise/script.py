import torch
import torch.nn as nn

torch.manual_seed(0)
f = nn.Linear(6, 3)
opt = torch.optim.Adam(f.parameters())


def kernel(a, b):
    d = (a.unsqueeze(1) - b.unsqueeze(0)).pow(2).sum(-1)
    return torch.exp(-d).mean()


for step in range(3):
    a, b = f(torch.randn(15, 6)), f(torch.randn(15, 6) + 1)
    loss = kernel(a, a) + kernel(b, b) - 2 * kernel(a, b)
    opt.zero_grad()
    loss.backward()
    opt.step()
