import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.GELU()) for _ in range(3))
head = nn.Linear(8, 2)
opt = torch.optim.AdamW([*blocks.parameters(), *head.parameters()])
for _ in range(3):
    x = torch.randn(10, 8)
    for b in blocks:
        x = checkpoint(b, x, use_reentrant=False)
    loss = nn.functional.cross_entropy(head(x), torch.randint(0, 2, (10,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
