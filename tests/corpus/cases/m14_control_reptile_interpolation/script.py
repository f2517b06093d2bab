import copy
import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
for outer in range(3):
    fast = copy.deepcopy(net)
    inner = torch.optim.SGD(fast.parameters(), lr=0.02)
    for _ in range(3):
        x = torch.randn(16, 2)
        loss = (fast(x) - x.sum(1, keepdim=True)).pow(2).mean()
        inner.zero_grad()
        loss.backward()
        inner.step()
    with torch.no_grad():
        for p, q in zip(net.parameters(), fast.parameters()):
            p += 0.1 * (q - p)
