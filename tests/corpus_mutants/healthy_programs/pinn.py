import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class PINN(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(2, 24)
        self.l2 = nn.Linear(24, 24)
        self.l3 = nn.Linear(24, 1)

    def forward(self, x, t):
        h = torch.cat([x, t], dim=1)
        h = torch.tanh(self.l1(h))
        h = torch.tanh(self.l2(h))
        return self.l3(h)


def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def residual(model, x, t):
    u = model(x, t)
    u_t = derivative(u, t)
    u_x = derivative(u, x)
    u_xx = derivative(u_x, x)
    return u_t + u * u_x - 0.01 * u_xx


model = PINN()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(5):
    x = (torch.rand(40, 1) * 2 - 1).requires_grad_()
    t = torch.rand(40, 1).requires_grad_()
    pde = residual(model, x, t).square().mean()
    x0 = torch.rand(20, 1) * 2 - 1
    initial = (model(x0, torch.zeros(20, 1)) + torch.sin(3.14159 * x0)).square().mean()
    loss = pde + initial
    opt.zero_grad()
    loss.backward()
    opt.step()
