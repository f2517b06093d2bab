import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 24), nn.SiLU(), nn.Linear(24, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def gradient_penalty(critic, real, fake):
    alpha = torch.rand(real.shape[0], 1)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = critic(mixed)
    grads = torch.autograd.grad(score.sum(), mixed, create_graph=True)[0]
    norm = grads.norm(2, dim=1)
    return ((norm - 1) ** 2).mean()


G = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 3))
C = Critic()
opt_g = torch.optim.RMSprop(G.parameters(), lr=1e-3)
opt_c = torch.optim.RMSprop(C.parameters(), lr=1e-3)
for it in range(4):
    for _ in range(2):
        real = torch.randn(32, 3) + 2
        with torch.no_grad():
            fake = G(torch.randn(32, 4))
        wasserstein = C(fake).mean() - C(real).mean()
        penalty = gradient_penalty(C, real, fake)
        c_loss = wasserstein + 10 * penalty
        opt_c.zero_grad()
        c_loss.backward()
        opt_c.step()
    sample = G(torch.randn(32, 4))
    g_loss = -C(sample).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
