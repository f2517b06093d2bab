import torch
import torch.nn as nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
generator = nn.Linear(4, 2)
opt_d = torch.optim.Adam(critic.parameters(), lr=1e-3)


def penalty(real, fake):
    mix = torch.rand(len(real), 1)
    inter = mix * real + (1 - mix) * fake
    score = critic(inter)
    (g,) = torch.autograd.grad(score.sum(), inter, create_graph=True)
    return (g.norm(dim=1) - 1).pow(2).mean()


for step in range(3):
    real = torch.randn(16, 2)
    fake = generator(torch.randn(16, 4)).detach()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
    opt_d.zero_grad()
    loss.backward()
    opt_d.step()
