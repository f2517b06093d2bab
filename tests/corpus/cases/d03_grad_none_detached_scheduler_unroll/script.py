import torch
import torch.nn as nn

torch.manual_seed(0)
T = 10
betas = torch.linspace(1e-3, 0.2, T)
alpha_bar = torch.cumprod(1 - betas, 0)


class Denoiser(nn.Module):
    def __init__(self, dim=2, width=32):
        super().__init__()
        self.time = nn.Embedding(T, width)
        self.inp = nn.Linear(dim, width)
        self.out = nn.Linear(width, dim)

    def forward(self, x, t):
        emb = self.time(t)
        with torch.set_grad_enabled(True):
            h = self.inp(x) + emb.detach()
        return self.out(torch.nn.functional.silu(h))


denoiser = Denoiser()
opt = torch.optim.Adam(denoiser.parameters(), lr=2e-3)
data = torch.randn(256, 2) * torch.tensor([2.0, 0.3])
for epoch in range(2):
    for x0 in data.split(64):
        t = torch.randint(0, T, (len(x0),))
        eps = torch.randn_like(x0)
        a = alpha_bar[t][:, None]
        x_t = a.sqrt() * x0 + (1 - a).sqrt() * eps
        loss = (denoiser(x_t, t) - eps).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
