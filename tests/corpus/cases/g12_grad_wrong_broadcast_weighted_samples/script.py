import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.Adam(net.parameters())
x = torch.randn(50, 3)
y = x.sin().sum(1, keepdim=True)
importance = torch.rand(50)
for epoch in range(3):
    err = (net(x) - y) ** 2
    loss = (importance * err).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
