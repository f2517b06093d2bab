import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(critic.parameters())
for _ in range(3):
    points = torch.randn(32, 2, requires_grad=True)
    score = critic(points)
    (slope,) = torch.autograd.grad(score.sum(), points, create_graph=True)
    penalty = (slope.norm(dim=1) - 1).square().mean()
    loss = score.mean() + 10 * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
