import torch
import torch.nn as nn

torch.manual_seed(0)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.q = nn.GRUCell(3, 8), nn.Linear(8, 2)


class Runner:
    def __init__(self, agent):
        self.agent = agent
        self.memory = {"h": torch.zeros(4, 8)}
        self.opt = torch.optim.Adam(agent.parameters())

    def step(self, obs):
        h = self.agent.gru(obs, self.memory["h"])
        loss = self.agent.q(h).pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.memory["h"] = h


agent = Agent()
runner = Runner(agent)
for t in range(3):
    runner.step(torch.randn(4, 3))
