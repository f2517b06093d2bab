import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(4, 6)
col, row = torch.rand(6), torch.rand(20, 1)
bias = nn.Parameter(torch.zeros(6))
opt = torch.optim.SGD([*net.parameters(), bias], lr=0.1)
for step in range(3):
    x = torch.randn(20, 4)
    err = (net(x) + bias - x.sum(1, keepdim=True)) ** 2
    loss = (row * col * err).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
