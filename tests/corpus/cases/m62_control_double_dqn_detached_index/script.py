import copy
import torch
import torch.nn as nn

torch.manual_seed(0)
q = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
qt = copy.deepcopy(q)
opt = torch.optim.Adam(q.parameters())
for _ in range(3):
    s, s2, r = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16)
    a = torch.randint(0, 3, (16,))
    best = q(s2).argmax(1)
    y = r + 0.9 * qt(s2)[torch.arange(16), best].detach()
    loss = (q(s)[torch.arange(16), a] - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
