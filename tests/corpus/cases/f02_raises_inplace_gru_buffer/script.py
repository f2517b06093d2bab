import torch
import torch.nn as nn

torch.manual_seed(0)
cell, head = nn.RNNCell(4, 8), nn.Linear(8, 2)
opt = torch.optim.Adam([*cell.parameters(), *head.parameters()])


class Rollout:
    def __init__(self, batch):
        self.state = torch.zeros(batch, 8)

    def advance(self, x, done):
        self.state = cell(x, self.state)
        self.state[done] = 0.0
        return head(self.state)


for update in range(2):
    rollout = Rollout(6)
    loss = 0.0
    for t in range(5):
        done = torch.rand(6) < 0.3
        done[0] = True
        out = rollout.advance(torch.randn(6, 4), done)
        loss = loss + out.square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
