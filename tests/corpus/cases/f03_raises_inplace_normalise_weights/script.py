import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class ArcHead(nn.Module):
    def __init__(self, dim, n):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(n, dim))
        self.register_buffer("ema", torch.ones(n))

    def forward(self, z):
        return F.normalize(z) @ F.normalize(self.centers).T * self.scale()

    def scale(self):
        return self.ema


arc, enc = ArcHead(6, 4), nn.Linear(5, 6)
opt = torch.optim.SGD([*arc.parameters(), *enc.parameters()], lr=0.1)
for step in range(3):
    x, y = torch.randn(12, 5), torch.randint(0, 4, (12,))
    logits = arc(enc(x))
    with torch.no_grad():
        counts = torch.bincount(y, minlength=4).float()
        arc.ema.mul_(0.9).add_(counts, alpha=0.1)
    loss = F.cross_entropy(logits, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
