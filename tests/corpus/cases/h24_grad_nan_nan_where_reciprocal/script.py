import torch
import torch.nn as nn

torch.manual_seed(0)
lin = nn.Linear(4, 4, bias=False)
opt = torch.optim.SGD(lin.parameters(), lr=0.1)


def safe_inverse(t):
    return torch.where(t == 0, torch.zeros_like(t), t.reciprocal())


for _ in range(2):
    x = torch.randn(5, 4)
    x[0] = 0
    loss = safe_inverse(lin(x)).pow(2).clamp(max=5).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
