import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    x = torch.randn(32, 6)
    better, worse = x + 0.5, x - 0.5
    difference = net(better) - net(worse)
    loss = nn.functional.softplus(-difference).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
