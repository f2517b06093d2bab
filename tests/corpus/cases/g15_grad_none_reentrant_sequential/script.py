import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint_sequential

torch.manual_seed(0)
features = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU())
head = nn.Linear(10, 2)
opt = torch.optim.SGD([*features.parameters(), *head.parameters()], lr=0.1)
for step in range(2):
    x, y = torch.randn(9, 5), torch.randint(0, 2, (9,))
    z = checkpoint_sequential(features, 1 + 1, x, use_reentrant=True) if step < 9 else features(x)
    loss = nn.functional.cross_entropy(head(z), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
