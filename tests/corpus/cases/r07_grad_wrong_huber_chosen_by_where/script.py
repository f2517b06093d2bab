import copy
import torch
from torch import nn


class DQNAgent:
    def __init__(self, obs=4, actions=3):
        self.online = nn.Sequential(nn.Linear(obs, 16), nn.ReLU(), nn.Linear(16, actions))
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.opt = torch.optim.RMSprop(self.online.parameters(), lr=1e-3)

    def learn(self, s, a, r, s2, done):
        q = self.online(s).gather(1, a[:, None])
        with torch.no_grad():
            target = r + 0.99 * (1 - done) * self.target(s2).max(1).values
        td = q - target
        loss = torch.where(td.abs() < 1, 0.5 * td ** 2, td.abs() - 0.5).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return td.detach()


torch.manual_seed(0)
agent = DQNAgent()
q = agent.online[0]
for _ in range(3):
    agent.learn(torch.randn(32, 4), torch.randint(0, 3, (32,)), torch.rand(32), torch.randn(32, 4), torch.zeros(32))
