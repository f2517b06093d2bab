import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Field(nn.Module):
    def __init__(self, freqs=3):
        super().__init__()
        self.freqs = freqs
        self.trunk = nn.Sequential(nn.Linear(2 * freqs, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.density = nn.Linear(24, 1)
        self.color = nn.Linear(24, 3)

    def encode(self, x):
        scaled = torch.cat([x * 2 ** i for i in range(self.freqs)], dim=-1)
        return torch.cat([scaled.sin(), scaled.cos()], dim=-1)

    def forward(self, x):
        h = self.trunk(self.encode(x))
        sigma = F.softplus(self.density(h)).squeeze(-1)
        rgb = torch.sigmoid(self.color(h))
        return sigma, rgb


def render(field, depth):
    sigma, rgb = field(depth.unsqueeze(-1))
    alpha = 1 - torch.exp(-sigma * 0.1)
    transmittance = torch.cumprod(F.pad(1 - alpha + 1e-10, (1, 0), value=1.0), dim=-1)[..., :-1]
    weights = alpha * transmittance
    return (weights.unsqueeze(-1) * rgb).sum(-2)


field = Field()
opt = torch.optim.Adam(field.parameters(), lr=5e-3)
for step in range(4):
    depth = torch.linspace(0, 2, 10).expand(16, 10) + 0.05 * torch.rand(16, 10)
    target = torch.rand(16, 3)
    image = render(field, depth)
    loss = F.mse_loss(image, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
