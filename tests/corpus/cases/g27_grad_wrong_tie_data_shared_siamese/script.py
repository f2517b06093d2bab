import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
left, right = nn.Linear(6, 4), nn.Linear(6, 4)
for a, b in zip(left.parameters(), right.parameters()):
    b.data = a.data
opt = torch.optim.Adam([*left.parameters(), *right.parameters()], lr=1e-2)
for _ in range(4):
    x = torch.randn(16, 6)
    u, v = left(x), right(x + 0.05 * torch.randn_like(x))
    same = F.cosine_similarity(u, v).mean()
    diff = F.cosine_similarity(u, v.roll(1, 0)).mean()
    loss = diff - same
    opt.zero_grad()
    loss.backward()
    opt.step()
