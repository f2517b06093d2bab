import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
LIMIT = 1.0
pi = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
q = nn.Linear(7, 1)
nn.init.constant_(pi[2].bias, 8.0)
opt = torch.optim.Adam(pi.parameters(), lr=1e-3)
for step in range(3):
    s = torch.randn(16, 5)
    a = F.hardtanh(pi(s), -LIMIT, LIMIT)
    loss = -q(torch.cat([s, a], -1)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
