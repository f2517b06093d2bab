import copy
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
q = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8))
k = copy.deepcopy(q)
for p in k.parameters():
    p.requires_grad = False
queue = F.normalize(torch.randn(8, 64), dim=0)
ptr = 0
opt = torch.optim.SGD(q.parameters(), lr=0.03)


@torch.no_grad()
def enqueue(keys):
    global ptr
    queue[:, ptr:ptr + len(keys)] = keys.T
    ptr = (ptr + len(keys)) % 64


for step in range(4):
    x = torch.randn(16, 10)
    a = F.normalize(q(x + 0.1 * torch.randn_like(x)), dim=1)
    with torch.no_grad():
        for pk, pq in zip(k.parameters(), q.parameters()):
            pk.data = pk.data * 0.99 + pq.data * 0.01
        b = F.normalize(k(x), dim=1)
    logits = torch.cat([(a * b).sum(1, keepdim=True), a @ queue.clone()], 1) / 0.07
    loss = F.cross_entropy(logits, torch.zeros(16, dtype=torch.long))
    opt.zero_grad()
    loss.backward()
    opt.step()
    enqueue(b)
