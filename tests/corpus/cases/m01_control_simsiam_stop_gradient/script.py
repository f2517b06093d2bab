import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
f = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))
h = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8))
opt = torch.optim.SGD([*f.parameters(), *h.parameters()], lr=0.05, momentum=0.9)
for step in range(3):
    x = torch.randn(32, 8)
    z1, z2 = f(x + 0.1 * torch.randn_like(x)), f(x + 0.1 * torch.randn_like(x))
    p1, p2 = h(z1), h(z2)
    loss = -(F.cosine_similarity(p1, z2.detach()).mean() + F.cosine_similarity(p2, z1.detach()).mean()) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
