import torch
import torch.nn as nn

torch.manual_seed(0)
layers = [nn.Linear(8, 8)]
for _ in range(8):
    layers += [nn.Tanh(), nn.Linear(8, 8)]
net = nn.Sequential(*layers, nn.Linear(8, 1))
x = torch.randn(4, 8)
with torch.no_grad():
    y = net(x) + 1e-6 * torch.randn(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
for _ in range(4):
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
