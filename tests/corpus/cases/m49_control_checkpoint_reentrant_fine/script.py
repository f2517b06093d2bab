import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
emb, block, head = nn.Embedding(10, 8), nn.Linear(8, 8), nn.Linear(8, 2)
opt = torch.optim.Adam([*emb.parameters(), *block.parameters(), *head.parameters()])
for _ in range(3):
    h = checkpoint(lambda t: torch.relu(block(t)), emb(torch.randint(0, 10, (6,))), use_reentrant=True)
    loss = nn.functional.cross_entropy(head(h), torch.randint(0, 2, (6,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
