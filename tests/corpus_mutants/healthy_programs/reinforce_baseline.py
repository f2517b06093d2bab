import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

from torch.distributions import Categorical

policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
baseline = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
policy_opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
baseline_opt = torch.optim.Adam(baseline.parameters(), lr=1e-2)
for episode in range(6):
    states = torch.randn(20, 4)
    dist = Categorical(logits=policy(states))
    actions = dist.sample()
    returns = (actions.float() - 1) * states[:, 0]
    values = baseline(states).squeeze(1)
    advantage = returns - values.detach()
    policy_loss = -(dist.log_prob(actions) * advantage).mean()
    policy_opt.zero_grad()
    policy_loss.backward()
    policy_opt.step()
    baseline_loss = F.mse_loss(values, returns)
    baseline_opt.zero_grad()
    baseline_loss.backward()
    baseline_opt.step()
