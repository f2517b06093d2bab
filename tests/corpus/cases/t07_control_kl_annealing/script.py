import torch
from torch import nn

torch.manual_seed(0)
enc, mu, lv, dec = nn.Linear(10, 16), nn.Linear(16, 3), nn.Linear(16, 3), nn.Linear(3, 10)
params = [p for m in (enc, mu, lv, dec) for p in m.parameters()]
opt = torch.optim.Adam(params, lr=1e-2)
for epoch in range(6):
    beta = min(1.0, epoch / 4)
    x = torch.randn(32, 10)
    h = torch.relu(enc(x))
    m, v = mu(h), lv(h).clamp(-10, 10)
    z = m + torch.randn_like(m) * (0.5 * v).exp()
    kl = -0.5 * (1 + v - m.pow(2) - v.exp()).sum(1).mean()
    loss = (dec(z) - x).pow(2).sum(1).mean() + beta * kl
    opt.zero_grad()
    loss.backward()
    opt.step()
