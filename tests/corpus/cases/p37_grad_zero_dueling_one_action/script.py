import torch
import torch.nn as nn


class Dueling(nn.Module):
    def __init__(self, obs, actions):
        super().__init__()
        self.body = nn.Linear(obs, 16)
        self.value = nn.Linear(16, 1)
        self.advantage = nn.Linear(16, actions)

    def forward(self, x):
        h = torch.relu(self.body(x))
        a = self.advantage(h)
        a = a - a.mean(dim=1, keepdim=True)
        return self.value(h) + a


torch.manual_seed(0)
net = Dueling(5, actions=1)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(5):
    obs = torch.randn(32, 5)
    target = obs.sum(1, keepdim=True)
    loss = nn.functional.smooth_l1_loss(net(obs), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
