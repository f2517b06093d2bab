import torch
import torch.nn as nn

torch.manual_seed(0)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 16)
        self.pi, self.v = nn.Linear(16, 2), nn.Linear(16, 1)
        self.saved, self.rewards = [], []

    def forward(self, x):
        h = torch.relu(self.body(x))
        return torch.softmax(self.pi(h), -1), self.v(h)


model = ActorCritic()
opt = torch.optim.Adam(model.parameters(), lr=3e-2)
for episode in range(3):
    for t in range(8):
        probs, value = model(torch.randn(4))
        m = torch.distributions.Categorical(probs)
        a = m.sample()
        model.saved.append((m.log_prob(a), value))
        model.rewards.append(float(a))
    R, returns = 0, []
    for r in model.rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-8)
    policy_losses, value_losses = [], []
    for (log_prob, value), R in zip(model.saved, returns):
        policy_losses.append(-log_prob * (R - value.item()))
        value_losses.append(nn.functional.smooth_l1_loss(value, torch.tensor([R])))
    opt.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    opt.step()
    del model.saved[:]
    del model.rewards[:]
