import copy
import torch
from torch import nn
torch.manual_seed(0)
shared = nn.Linear(4, 2)
opt = torch.optim.Adam(shared.parameters())
for _ in range(3):
    local = copy.deepcopy(shared)
    loss = local(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    opt.zero_grad()
    for p, q in zip(shared.parameters(), local.parameters()):
        p.grad = q.grad
    opt.step()
