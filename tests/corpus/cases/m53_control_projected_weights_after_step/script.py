import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
proto = nn.Linear(6, 4, bias=False)
enc = nn.Linear(5, 6)
opt = torch.optim.SGD([*proto.parameters(), *enc.parameters()], lr=0.1)
for step in range(4):
    with torch.no_grad():
        w = proto.weight.data.clone()
        proto.weight.copy_(F.normalize(w, dim=1))
    z = F.normalize(enc(torch.randn(16, 5)), dim=1)
    loss = F.cross_entropy(proto(z) / 0.1, torch.randint(0, 4, (16,)))
    opt.zero_grad()
    loss.backward()
    if step < 1:
        for p in proto.parameters():
            p.grad = None
    opt.step()
