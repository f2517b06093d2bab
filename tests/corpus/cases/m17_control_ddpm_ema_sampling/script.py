import copy
import torch
import torch.nn as nn

torch.manual_seed(0)
eps_net = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))
ema = copy.deepcopy(eps_net)
for p in ema.parameters():
    p.detach_()
opt = torch.optim.AdamW(eps_net.parameters(), lr=1e-3)
ab = torch.cumprod(1 - torch.linspace(1e-3, 0.1, 20), 0)


@torch.no_grad()
def sample(n):
    x = torch.randn(n, 2)
    for t in reversed(range(20)):
        e = ema(torch.cat([x, torch.full((n, 1), t / 20)], 1))
        x = x - 0.1 * e
    return x


for step in range(3):
    x0, t = torch.randn(32, 2), torch.randint(0, 20, (32,))
    e = torch.randn_like(x0)
    xt = ab[t].sqrt()[:, None] * x0 + (1 - ab[t]).sqrt()[:, None] * e
    loss = (eps_net(torch.cat([xt, t[:, None] / 20], 1)) - e).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    for a, b in zip(ema.parameters(), eps_net.parameters()):
        a.mul_(0.99).add_(b.detach(), alpha=0.01)
sample(4)
