import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class WorldModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRUCell(4, 16)
        self.obs = nn.Linear(16, 4)
        self.reward = nn.Linear(16, 1)


world = WorldModel()
opt = torch.optim.Adam(world.parameters(), lr=3e-4)
for update in range(2):
    obs, rew = torch.randn(6, 8, 4), torch.randn(6, 8)
    h = torch.zeros(8, 16)
    loss = 0
    for t in range(5):
        h = world.rnn(obs[t], h)
        loss = loss + F.mse_loss(world.reward(h).squeeze(-1), rew[t])
        loss = F.mse_loss(world.obs(h), obs[t + 1])
    opt.zero_grad()
    loss.backward()
    opt.step()
