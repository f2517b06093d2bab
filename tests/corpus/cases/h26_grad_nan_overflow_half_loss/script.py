import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
for _ in range(2):
    x = torch.randn(20, 4) * 60
    rate = torch.exp(net(x).squeeze(1) * 20)
    counts = torch.poisson(torch.ones(20))
    loss = (rate - counts * torch.log(rate + 1e-6)).mean() / (1 + rate.max())
    opt.zero_grad()
    loss.backward()
    opt.step()
