import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 10), nn.Softplus(), nn.Linear(10, 1))
opt = torch.optim.Adam(net.parameters())
for step in range(3):
    x = torch.randn(16, 3, requires_grad=True)
    u = net(x)
    du = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
    d2 = sum(torch.autograd.grad(du[:, i].sum(), x, create_graph=True)[0][:, i] for i in range(3))
    loss = (d2 - 1).pow(2).mean() + u.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
