import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(4):
    x, y = torch.randn(20, 4), torch.rand(20)
    s = net(x).squeeze(1)
    order = (y[:, None] > y[None, :]).float()
    margin = s[:, None] - s[None, :]
    ranking = (order * nn.functional.softplus(-margin)).sum() / order.sum()
    gap = s.unsqueeze(1) - y
    kernel = torch.exp(-gap.pow(2)).mean()
    opt.zero_grad()
    (ranking - 0.1 * kernel).backward()
    opt.step()
