import torch
import torch.nn as nn

torch.manual_seed(0)
enc, mu, lv, dec = nn.Linear(8, 8), nn.Linear(8, 2), nn.Linear(8, 2), nn.Linear(2, 8)
opt = torch.optim.Adam([p for m in (enc, mu, lv, dec) for p in m.parameters()])
for epoch in range(6):
    beta = min(1.0, epoch / 4)
    x = torch.randn(20, 8)
    h = enc(x).relu()
    m, l = mu(h), lv(h)
    z = m + torch.randn_like(m) * (0.5 * l).exp()
    kl = -0.5 * (1 + l - m.pow(2) - l.exp()).sum(1).mean()
    loss = (dec(z) - x).pow(2).sum(1).mean() + beta * kl
    opt.zero_grad()
    loss.backward()
    opt.step()
