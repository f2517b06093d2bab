import torch
import torch.nn as nn

torch.manual_seed(0)


def init(m):
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, 0.0, 0.01)
        nn.init.zeros_(m.bias)


layers = []
for i in range(12):
    layers += [nn.Linear(16, 16), nn.ReLU()]
net = nn.Sequential(*layers, nn.Linear(16, 1))
net.apply(init)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(32, 16)
    loss = nn.functional.mse_loss(net(x), x[:, :1])
    opt.zero_grad()
    loss.backward()
    opt.step()
