import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

import copy


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


class Agent:
    def __init__(self):
        self.q = mlp(6, 1)
        self.value = mlp(4, 1)
        self.policy = mlp(4, 2)
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.q_opt = torch.optim.Adam(self.q.parameters(), lr=1e-3)
        self.v_opt = torch.optim.Adam(self.value.parameters(), lr=1e-3)
        self.pi_opt = torch.optim.Adam(self.policy.parameters(), lr=1e-3)

    def update(self, s, a, r, s2):
        with torch.no_grad():
            q_old = self.q_target(torch.cat([s, a], 1))
        v = self.value(s)
        gap = q_old - v
        weight = torch.where(gap > 0, 0.7, 0.3)
        v_loss = (weight * gap.square()).mean()
        self.v_opt.zero_grad()
        v_loss.backward()
        self.v_opt.step()

        with torch.no_grad():
            target = r + 0.99 * self.value(s2)
        q_loss = F.mse_loss(self.q(torch.cat([s, a], 1)), target)
        self.q_opt.zero_grad()
        q_loss.backward()
        self.q_opt.step()

        advantage = torch.exp(3.0 * gap.detach()).clamp(max=100.0)
        error = (self.policy(s) - a).square().sum(1, keepdim=True)
        pi_loss = (advantage * error).mean()
        self.pi_opt.zero_grad()
        pi_loss.backward()
        self.pi_opt.step()
        with torch.no_grad():
            for slow, fast in zip(self.q_target.parameters(), self.q.parameters()):
                slow.lerp_(fast, 0.005)
        return v_loss.item(), q_loss.item(), pi_loss.item()


agent = Agent()
data = [torch.randn(64, 4), torch.randn(64, 2), torch.randn(64, 1), torch.randn(64, 4)]
for step in range(5):
    rows = torch.randint(0, 64, (16,))
    print(agent.update(*(column[rows] for column in data)))
