import torch
import torch.nn as nn

torch.manual_seed(5)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.ELU())
        self.mu = nn.Linear(16, 2)
        self.log_std = nn.Parameter(torch.zeros(2))

    @torch.no_grad()
    def mean(self, obs):
        return self.mu(self.body(obs))

    def log_prob(self, obs, action):
        return torch.distributions.Normal(self.mean(obs), self.log_std.exp()).log_prob(action).sum(-1)

    @torch.no_grad()
    def act(self, obs):
        return self.mean(obs) + torch.randn(len(obs), 2) * self.log_std.exp()


policy = Policy()
opt = torch.optim.Adam(policy.parameters(), 1e-3)
for iteration in range(3):
    obs = torch.randn(32, 4)
    action = policy.act(obs)
    old = policy.log_prob(obs, action).detach()
    advantage = torch.randn(32)
    for epoch in range(2):
        ratio = (policy.log_prob(obs, action) - old).exp()
        clipped = ratio.clamp(0.8, 1.2)
        loss = -torch.min(ratio * advantage, clipped * advantage).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
