import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 3)).eval()
x = torch.randn(2, 5, requires_grad=True)
logits = net(x)
maps = []
for c in range(3):
    g, = torch.autograd.grad(logits[:, c].sum(), x, retain_graph=c < 2)
    maps.append(g)
print(torch.stack(maps).abs().mean())
