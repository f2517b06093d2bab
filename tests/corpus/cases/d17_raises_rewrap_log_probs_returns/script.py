import torch
import torch.nn as nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2), nn.LogSoftmax(dim=-1))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)


class Memory:
    def __init__(self):
        self.logp, self.reward = [], []

    def store(self, logp, reward):
        self.logp.append(logp.item())
        self.reward.append(reward)

    def loss(self):
        returns = torch.tensor(self.reward).flip(0).cumsum(0).flip(0)
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        return -(torch.tensor(self.logp, requires_grad=False) * returns).sum()


for episode in range(2):
    memory = Memory()
    for t in range(10):
        state = torch.randn(4)
        logp = policy(state)
        a = torch.multinomial(logp.exp(), 1)
        memory.store(logp[a], float(state[a] > 0))
    loss = memory.loss()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
