import torch
import torch.nn as nn
import torch.nn.functional as F


class SetCritic(nn.Module):
    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.score = nn.Linear(dim, 1)

    def forward(self, points):
        b, n, d = points.shape
        q, k, v = self.qkv(points).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v)
        return self.score(h.transpose(1, 2).reshape(b, n, d).mean(1))


def gradient_penalty(critic, real, fake):
    mix = torch.rand(len(real), 1, 1)
    points = (mix * real + (1 - mix) * fake).requires_grad_()
    (g,) = torch.autograd.grad(critic(points).sum(), points, create_graph=True)
    return (g.flatten(1).norm(dim=1) - 1).square().mean()


torch.manual_seed(0)
critic = SetCritic()
opt = torch.optim.Adam(critic.parameters(), lr=1e-4)
for _ in range(3):
    real, fake = torch.randn(4, 6, 8), torch.rand(4, 6, 8)
    loss = critic(fake).mean() - critic(real).mean() + 10 * gradient_penalty(critic, real, fake)
    opt.zero_grad()
    loss.backward()
    opt.step()
