import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(4):
    x = torch.randn(16, 4)
    out = net(x)
    out = net(x + 0.01 * torch.randn_like(x))
    loss = (out - x.sum(1, keepdim=True)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
