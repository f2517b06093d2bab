import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

import copy
from torch.distributions import Normal

policy = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 2))
q = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 1))
q_target = copy.deepcopy(q).requires_grad_(False)
log_alpha = torch.zeros(1, requires_grad=True)
policy_opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
q_opt = torch.optim.Adam(q.parameters(), lr=1e-3)
alpha_opt = torch.optim.Adam([log_alpha], lr=1e-3)


def act(state):
    mean, log_std = policy(state).chunk(2, dim=-1)
    dist = Normal(mean, log_std.clamp(-5, 2).exp())
    u = dist.rsample()
    a = torch.tanh(u)
    logp = dist.log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)
    return a, logp.sum(-1, keepdim=True)


for step in range(5):
    s, a, r, s2 = torch.randn(32, 3), torch.rand(32, 1), torch.randn(32, 1), torch.randn(32, 3)
    with torch.no_grad():
        a2, logp2 = act(s2)
        y = r + 0.99 * (q_target(torch.cat([s2, a2], -1)) - log_alpha.exp() * logp2)
    q_loss = F.mse_loss(q(torch.cat([s, a], -1)), y)
    q_opt.zero_grad()
    q_loss.backward()
    q_opt.step()

    new_a, logp = act(s)
    policy_loss = (log_alpha.exp().detach() * logp - q(torch.cat([s, new_a], -1))).mean()
    policy_opt.zero_grad()
    policy_loss.backward()
    policy_opt.step()

    alpha_loss = -(log_alpha * (logp - 1.0).detach()).mean()
    alpha_opt.zero_grad()
    alpha_loss.backward()
    alpha_opt.step()
    with torch.no_grad():
        for t, p in zip(q_target.parameters(), q.parameters()):
            t.lerp_(p, 0.05)
