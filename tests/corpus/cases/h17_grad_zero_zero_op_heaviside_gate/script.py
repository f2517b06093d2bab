import torch
import torch.nn as nn

torch.manual_seed(0)
gate, val = nn.Linear(5, 8), nn.Linear(5, 8)
opt = torch.optim.Adam([*gate.parameters(), *val.parameters()])
for _ in range(3):
    x = torch.randn(20, 5)
    g = (torch.sign(gate(x)) + 1) / 2
    loss = (g * val(x)).sum(1).sub(x.sum(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
