import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)

points = torch.rand(100, 2, requires_grad=True)
for it in range(3):
    x, t = points[:, :1], points[:, 1:]
    u = net(points)
    u_t = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
    loss = (u_t - 0.1 * u_xx).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
