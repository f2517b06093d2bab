import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Dynamics(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, y):
        return self.net(y)


def odeint(f, y, steps=8, dt=0.1):
    states = [y]
    for _ in range(steps):
        k1 = f(y)
        k2 = f(y + 0.5 * dt * k1)
        y = y + dt * k2
        states.append(y)
    return torch.stack(states)


func = Dynamics()
optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-3)
time = torch.linspace(0, 0.8, 9)
truth = torch.stack([time.cos(), time.sin()], 1).unsqueeze(1)
for itr in range(4):
    optimizer.zero_grad()
    pred = odeint(func, truth[0])
    loss = torch.mean(torch.abs(pred - truth))
    loss.backward()
    optimizer.step()
