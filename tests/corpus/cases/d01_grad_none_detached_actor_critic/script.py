import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(1)


class ActorCritic(nn.Module):
    def __init__(self, obs=6, actions=3, hidden=24):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, actions)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs):
        z = self.trunk(obs)
        z.detach_()
        return Categorical(logits=self.pi(z)), self.v(z).squeeze(-1)


def collect(model, horizon=12):
    obs = torch.randn(6)
    logps, values, rewards = [], [], []
    for _ in range(horizon):
        dist, value = model(obs)
        action = dist.sample()
        logps.append(dist.log_prob(action))
        values.append(value)
        rewards.append(float(action == obs[:3].argmax()))
        obs = torch.randn(6)
    return torch.stack(logps), torch.stack(values), rewards


model = ActorCritic()
optim = torch.optim.RMSprop(model.parameters(), lr=3e-3)
for episode in range(3):
    logps, values, rewards = collect(model)
    returns, running = [], 0.0
    for r in reversed(rewards):
        running = r + 0.95 * running
        returns.insert(0, running)
    returns = torch.tensor(returns)
    advantage = returns - values
    loss = -(logps * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
