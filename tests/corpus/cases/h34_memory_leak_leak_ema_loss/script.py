import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 1))
opt = torch.optim.Adam(net.parameters())
smooth = None
for step in range(30):
    x = torch.randn(8, 5)
    loss = (net(x) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    smooth = loss if smooth is None else 0.98 * smooth + 0.02 * loss
print(float(smooth))
