import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

import copy

online = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 6))
predictor = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 6))
target = copy.deepcopy(online)
opt = torch.optim.Adam([*online.parameters(), *predictor.parameters()], lr=1e-2)


def regression_loss(p, z):
    p, z = F.normalize(p, dim=1), F.normalize(z, dim=1)
    return 2 - 2 * (p * z).sum(1).mean()


for step in range(5):
    x = torch.randn(24, 10)
    v1, v2 = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    p1, p2 = predictor(online(v1)), predictor(online(v2))
    with torch.no_grad():
        z1, z2 = target(v1), target(v2)
    loss = regression_loss(p1, z2) + regression_loss(p2, z1)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for t, o in zip(target.parameters(), online.parameters()):
            t.data.mul_(0.99).add_(0.01 * o)
