import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Denoiser(nn.Module):
    def __init__(self, dim=8, steps=20):
        super().__init__()
        self.time = nn.Embedding(steps, 16)
        self.inp = nn.Linear(dim, 16)
        self.mid = nn.Linear(16, 16)
        self.out = nn.Linear(16, dim)

    def forward(self, x, t):
        emb = self.time(t)
        h = F.silu(self.inp(x) + emb)
        h = h + F.silu(self.mid(h))
        return self.out(h)


class Diffusion:
    def __init__(self, model, steps=20):
        self.model = model
        betas = torch.linspace(1e-4, 0.2, steps)
        self.alpha_bar = torch.cumprod(1 - betas, 0)

    def loss(self, x0):
        t = torch.randint(0, len(self.alpha_bar), (x0.shape[0],))
        noise = torch.randn_like(x0)
        a = self.alpha_bar[t].unsqueeze(1)
        noisy = a.sqrt() * x0 + (1 - a).sqrt() * noise
        predicted = self.model(noisy, t)
        return F.mse_loss(predicted, noise)


model = Denoiser()
ema = Denoiser()
ema.load_state_dict(model.state_dict())
ema.requires_grad_(False)
diffusion = Diffusion(model)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(6):
    opt.zero_grad()
    loss = diffusion.loss(torch.randn(32, 8) * 0.3 + 1)
    loss.backward()
    opt.step()
    with torch.no_grad():
        for e, p in zip(ema.parameters(), model.parameters()):
            e.lerp_(p, 0.1)
