import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(0)
q = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
data = torch.randn(100, 3)
prio = np.ones(100)
rng = np.random.default_rng(0)
for step in range(4):
    p = prio / prio.sum()
    idx = rng.choice(100, 16, p=p)
    weights = torch.as_tensor((100 * p[idx]) ** -0.4, dtype=torch.float32)
    s = data[idx]
    a = torch.randint(0, 2, (16, 1))
    td = q(s).gather(1, a).squeeze(1) - torch.randn(16)
    loss = (weights * td ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    prio[idx] = np.abs(td.detach().numpy()) + 1e-3
