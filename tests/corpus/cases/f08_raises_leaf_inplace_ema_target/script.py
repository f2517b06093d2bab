import copy
import torch
import torch.nn as nn

torch.manual_seed(0)
online = nn.Linear(4, 4)
target = copy.deepcopy(online)
opt = torch.optim.Adam(online.parameters())


def soft_update(tau=0.05):
    for t, o in zip(target.parameters(), online.parameters()):
        t.mul_(1 - tau).add_(tau * o)


for step in range(3):
    soft_update()
    x = torch.randn(8, 4)
    with torch.no_grad():
        y = target(x)
    loss = (online(x) - y - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
