import torch
import torch.nn as nn

torch.manual_seed(0)
x = torch.randn(60, 4)
y = x.sum(1) + 0.1 * torch.randn(60)
y[::7] = float("nan")
keep = ~torch.isnan(y)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for epoch in range(4):
    pred = net(x).squeeze(1)
    loss = (pred[keep] - y[keep]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
