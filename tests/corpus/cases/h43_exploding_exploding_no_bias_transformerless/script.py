import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(*[nn.Linear(24, 24, bias=False) for _ in range(12)], nn.Linear(24, 1))
for layer in net:
    nn.init.normal_(layer.weight)
opt = torch.optim.SGD(net.parameters(), lr=1e-20)
for _ in range(2):
    x = torch.randn(8, 24)
    loss = net(x).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
