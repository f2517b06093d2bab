import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Dynamics(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 2))
        self.log_rate = nn.Parameter(torch.zeros(2))

    def forward(self, t, y):
        time = torch.full_like(y[:, :1], t)
        return self.net(torch.cat([y, time], dim=1)) * self.log_rate.exp()


def rk4(f, y, t, h):
    k1 = f(t, y)
    k2 = f(t + h / 2, y + h / 2 * k1)
    k3 = f(t + h / 2, y + h / 2 * k2)
    k4 = f(t + h, y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def integrate(f, y, steps, h=0.1):
    path = [y]
    for i in range(steps):
        y = rk4(f, y, i * h, h)
        path.append(y)
    return torch.stack(path)


def main():
    dynamics = Dynamics()
    optimizer = torch.optim.Adam(dynamics.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)
    start = torch.randn(8, 2)
    truth = torch.stack([start * (0.9**i) for i in range(6)])
    for epoch in range(5):
        optimizer.zero_grad()
        path = integrate(dynamics, start, 5)
        loss = (path - truth).abs().mean()
        loss.backward()
        optimizer.step()
        schedule.step()


main()
