import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

import copy

actor = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 1), nn.Tanh())
critic = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 1))
actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)


def soft_update(target, source, tau=0.05):
    with torch.no_grad():
        for t, s in zip(target.parameters(), source.parameters()):
            t.mul_(1 - tau).add_(tau * s)


for step in range(6):
    s, a, r, s2 = torch.randn(32, 3), torch.rand(32, 1), torch.randn(32, 1), torch.randn(32, 3)
    with torch.no_grad():
        next_q = critic_target(torch.cat([s2, actor_target(s2)], 1))
        target_q = r + 0.99 * next_q
    q = critic(torch.cat([s, a], 1))
    critic_loss = F.mse_loss(q, target_q)
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()

    action = actor(s)
    actor_loss = -critic(torch.cat([s, action], 1)).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()

    soft_update(actor_target, actor)
    soft_update(critic_target, critic)
