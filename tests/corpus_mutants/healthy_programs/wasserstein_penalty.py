import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


generator = nn.Sequential(nn.Linear(4, 24), nn.LeakyReLU(0.2), nn.Linear(24, 6))
critic = nn.Sequential(nn.Linear(6, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
g_opt = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
c_opt = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))


def penalty(real, fake):
    mix = torch.rand(len(real), 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_()
    scores = critic(between)
    (slope,) = torch.autograd.grad(scores.sum(), between, create_graph=True)
    return (slope.norm(dim=1) - 1).square().mean()


for step in range(4):
    for _ in range(2):
        real = torch.randn(16, 6) + 2
        fake = generator(torch.randn(16, 4)).detach()
        wasserstein = critic(fake).mean() - critic(real).mean()
        c_loss = wasserstein + 10.0 * penalty(real, fake)
        c_opt.zero_grad()
        c_loss.backward()
        c_opt.step()
    samples = generator(torch.randn(16, 4))
    g_loss = -critic(samples).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
