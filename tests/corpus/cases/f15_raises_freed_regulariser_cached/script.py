import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
penalty = sum((p ** 2).sum() for p in net.parameters())
x = torch.randn(32, 5)
y = x.sum(1, keepdim=True)
for epoch in range(3):
    loss = (net(x) - y).pow(2).mean() + 1e-3 * penalty
    opt.zero_grad()
    loss.backward()
    opt.step()
