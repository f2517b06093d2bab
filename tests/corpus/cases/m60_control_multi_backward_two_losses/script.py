import torch
import torch.nn as nn

torch.manual_seed(0)
shared, a, b = nn.Linear(5, 8), nn.Linear(8, 1), nn.Linear(8, 1)
opt = torch.optim.Adam([*shared.parameters(), *a.parameters(), *b.parameters()])
for step in range(3):
    x = torch.randn(10, 5)
    h = torch.tanh(shared(x))
    opt.zero_grad()
    a(h).pow(2).mean().backward(retain_graph=True)
    (b(h) - 1).pow(2).mean().backward()
    opt.step()
