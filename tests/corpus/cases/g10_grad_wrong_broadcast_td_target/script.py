import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
q, target = nn.Linear(4, 3), nn.Linear(4, 3)
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
for step in range(3):
    s, s2 = torch.randn(32, 4), torch.randn(32, 4)
    a = torch.randint(0, 3, (32, 1))
    r = torch.randn(32)
    with torch.no_grad():
        y = r + 0.99 * target(s2).max(1).values
    loss = F.smooth_l1_loss(q(s).gather(1, a), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
