import torch
import torch.nn as nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
meta = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(2):
    meta.zero_grad()
    total = 0.0
    for task in range(2):
        a = torch.rand(1) + 0.5
        xs, xq = torch.randn(8, 1), torch.randn(8, 1)
        fast = dict(net.named_parameters())
        for k in range(2):
            loss = (functional_call(net, fast, (xs,)) - a * xs.sin()).pow(2).mean()
            g = torch.autograd.grad(loss, fast.values(), create_graph=True)
            fast = {n: p - 0.05 * gi for (n, p), gi in zip(fast.items(), g)}
        total = total + (functional_call(net, fast, (xq,)) - a * xq.sin()).pow(2).mean()
    total.backward()
    meta.step()
