import torch
import torch.nn as nn

torch.manual_seed(0)


class GaussianPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def distribution(self, s):
        return torch.distributions.Normal(self.net(s), self.log_std.exp())

    def act(self, s):
        d = self.distribution(s)
        a = d.sample()
        return a, d.log_prob(a).sum(-1), d


def as_batch(items):
    return torch.stack([i.detach() for i in items])


policy = GaussianPolicy()
opt = torch.optim.Adam(policy.parameters(), 1e-2)
for ep in range(2):
    states, logps, rewards, ents = [], [], [], []
    for t in range(6):
        s = torch.randn(3)
        a, lp, d = policy.act(s)
        states.append(s), logps.append(lp), ents.append(d.entropy().sum()), rewards.append(-(a - s[:1]).abs())
    r = as_batch(rewards).squeeze(-1)
    logp = as_batch(logps)
    loss = -(logp * (r - r.mean())).mean() - 0.01 * torch.stack(ents).mean()
    opt.zero_grad(); loss.backward(); opt.step()
