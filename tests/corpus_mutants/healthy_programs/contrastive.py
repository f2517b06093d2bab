import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

encoder = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8))
projector = nn.Linear(8, 6)
opt = torch.optim.SGD([*encoder.parameters(), *projector.parameters()], lr=0.1, momentum=0.9)


def augment(x):
    return x + 0.1 * torch.randn_like(x)


def nt_xent(z1, z2, temperature=0.5):
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    sim = z @ z.t() / temperature
    n = z1.shape[0]
    sim = sim.masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
    target = torch.cat([torch.arange(n) + n, torch.arange(n)])
    return F.cross_entropy(sim, target)


for step in range(5):
    x = torch.randn(24, 10)
    z1 = projector(encoder(augment(x)))
    z2 = projector(encoder(augment(x)))
    loss = nt_xent(z1, z2)
    opt.zero_grad()
    loss.backward()
    opt.step()
