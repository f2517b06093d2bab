import torch
import torch.nn as nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

torch.manual_seed(0)
net = nn.Sequential(weight_norm(nn.Linear(6, 12)), nn.LeakyReLU(0.1), spectral_norm(nn.Linear(12, 1)))
opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
for _ in range(4):
    x = torch.randn(16, 6)
    loss = (net(x) - x.norm(dim=1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
