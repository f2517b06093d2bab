import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.Linear(3, 3, bias=False)
with torch.no_grad():
    net.weight.copy_(torch.eye(3))
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
directions = torch.eye(3)


def angular_error(a, b):
    cos = (F.normalize(a, dim=-1) * F.normalize(b, dim=-1)).sum(-1)
    return torch.rad2deg(torch.acos(cos))


for step in range(2):
    loss = angular_error(net(directions), directions).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
