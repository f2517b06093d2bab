import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine = nn.Linear(4, 32)
        self.action_head = nn.Linear(32, 2)
        self.value_head = nn.Linear(32, 1)

    def forward(self, x):
        h = F.relu(self.affine(x))
        probs = F.softmax(self.action_head(h), dim=-1)
        value = self.value_head(h).squeeze(-1)
        return probs, value


model = Policy()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for episode in range(5):
    log_probs, values, rewards = [], [], []
    state = torch.randn(4)
    for t in range(6):
        probs, value = model(state)
        dist = Categorical(probs)
        action = dist.sample()
        log_probs.append(dist.log_prob(action))
        values.append(value)
        state = 0.9 * state + 0.1 * torch.randn(4)
        rewards.append(float(state[0] * (2 * action.item() - 1)))
    returns, R = [], 0.0
    for r in reversed(rewards):
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    values = torch.stack(values)
    advantage = returns - values.detach()
    policy_loss = -(torch.stack(log_probs) * advantage).mean()
    value_loss = F.smooth_l1_loss(values, returns)
    loss = policy_loss + 0.5 * value_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
