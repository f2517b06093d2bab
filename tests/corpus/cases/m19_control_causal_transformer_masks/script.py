import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.qkv, self.o, self.h = nn.Linear(d, 3 * d), nn.Linear(d, d), h
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, pad):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.h, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        s = q @ k.transpose(-2, -1) / (d // self.h) ** 0.5
        s = s.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        s = s.masked_fill(pad[:, None, None], -1e9)
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)
        x = x + self.o(y)
        return x + self.mlp(self.n2(x))


emb, pos = nn.Embedding(20, 16, padding_idx=0), nn.Parameter(torch.zeros(1, 8, 16))
blocks = nn.ModuleList(Block(16, 2) for _ in range(2))
head = nn.Linear(16, 20, bias=False)
head.weight = emb.weight
params = list({*emb.parameters(), *blocks.parameters(), *head.parameters(), pos})
opt = torch.optim.AdamW(params, lr=1e-3)
for step in range(3):
    ids = torch.randint(1, 20, (4, 9))
    ids[0, 6:] = 0
    x = emb(ids[:, :-1]) + pos
    for b in blocks:
        x = b(x, ids[:, :-1] == 0)
    loss = F.cross_entropy(head(x).flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0)
    opt.zero_grad()
    loss.backward()
    opt.step()
