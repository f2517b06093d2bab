import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
emb = nn.Embedding(20, 8).requires_grad_(False)
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
opt = torch.optim.AdamW(layer.parameters())
for step in range(2):
    ids = torch.randint(0, 20, (4, 5))
    hidden = checkpoint(layer, emb(ids), use_reentrant=True)
    loss = hidden.mean(1).pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
