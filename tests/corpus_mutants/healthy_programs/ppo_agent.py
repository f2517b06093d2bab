import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

from torch.distributions import Normal


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
        self.actor_mean = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
        self.actor_logstd = nn.Parameter(torch.zeros(1, 2))

    def get_value(self, x):
        return self.critic(x).flatten()

    def get_action(self, x, action=None):
        mean = self.actor_mean(x)
        std = self.actor_logstd.expand_as(mean).exp()
        dist = Normal(mean, std)
        if action is None:
            action = dist.sample()
        return action, dist.log_prob(action).sum(1), dist.entropy().sum(1), self.get_value(x)


agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
for update in range(2):
    obs = torch.randn(64, 3)
    with torch.no_grad():
        actions, old_logprob, _, values = agent.get_action(obs)
        rewards = -obs.square().sum(1) + 0.1 * actions[:, 0]
        returns = rewards + 0.9 * values
        advantages = returns - values
    for epoch in range(2):
        for idx in torch.randperm(64).split(32):
            _, new_logprob, entropy, new_value = agent.get_action(obs[idx], actions[idx])
            ratio = (new_logprob - old_logprob[idx]).exp()
            adv = advantages[idx]
            pg_loss1 = -adv * ratio
            pg_loss2 = -adv * torch.clamp(ratio, 0.8, 1.2)
            pg_loss = torch.max(pg_loss1, pg_loss2).mean()
            v_loss = 0.5 * (new_value - returns[idx]).square().mean()
            loss = pg_loss - 0.01 * entropy.mean() + 0.5 * v_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
