import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.3)
for step in range(5):
    x = torch.randn(32, 4)
    mean, log_std = net(x).chunk(2, 1)
    log_std = log_std.clamp(-1.0, 0.5)
    loss = (0.5 * ((x[:, :1] - mean) / log_std.exp()).pow(2) + log_std).clamp(max=20).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
