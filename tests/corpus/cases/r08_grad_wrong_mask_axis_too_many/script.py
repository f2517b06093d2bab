import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
emb, lm = nn.Embedding(30, 8), nn.Linear(8, 30)
opt = torch.optim.Adam([*emb.parameters(), *lm.parameters()])
for _ in range(3):
    ids = torch.randint(1, 30, (6, 11))
    lengths = torch.randint(4, 11, (6,))
    mask = (torch.arange(10)[None] < lengths[:, None]).float().unsqueeze(1)
    logits = lm(emb(ids[:, :-1]))
    token_loss = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
    loss = (token_loss * mask).sum() / mask.sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
