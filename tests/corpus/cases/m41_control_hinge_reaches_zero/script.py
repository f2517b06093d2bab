import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
emb = nn.Linear(4, 4)
opt = torch.optim.SGD(emb.parameters(), lr=0.5)
centers = 6 * torch.randn(3, 4)
for step in range(10):
    y = torch.randint(0, 3, (12,))
    a, p = centers[y] + 0.1 * torch.randn(12, 4), centers[y] + 0.1 * torch.randn(12, 4)
    n = centers[(y + 1) % 3] + 0.1 * torch.randn(12, 4)
    loss = F.triplet_margin_loss(emb(a), emb(p), emb(n), margin=1.0)
    opt.zero_grad()
    loss.backward()
    opt.step()
