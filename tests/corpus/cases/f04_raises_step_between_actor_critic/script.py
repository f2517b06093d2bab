import torch
import torch.nn as nn

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1), nn.Tanh())
critic = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))


class DDPG:
    def __init__(self):
        self.opt_actor = torch.optim.Adam(actor.parameters(), lr=1e-3)
        self.opt_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)

    def update(self, s, a, r):
        q_loss = (critic(torch.cat([s, a], 1)) - r).pow(2).mean()
        pi_loss = -critic(torch.cat([s, actor(s)], 1)).mean()
        self.opt_critic.zero_grad()
        q_loss.backward()
        self.opt_critic.step()
        self.opt_actor.zero_grad()
        pi_loss.backward()
        self.opt_actor.step()


agent = DDPG()
for it in range(2):
    agent.update(torch.randn(20, 3), torch.randn(20, 1), torch.randn(20, 1))
