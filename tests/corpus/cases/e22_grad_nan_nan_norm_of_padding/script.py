import torch
import torch.nn as nn

torch.manual_seed(0)
emb = nn.Embedding(15, 6, padding_idx=0)
proj = nn.Linear(6, 6)
opt = torch.optim.Adam([*emb.parameters(), *proj.parameters()])
nn.init.zeros_(proj.bias)


def normalise(v):
    return v / torch.sqrt((v * v).sum(-1, keepdim=True)).clamp_min(1e-6)


for step in range(2):
    ids = torch.randint(1, 15, (4, 7))
    ids[:, 5:] = 0
    z = normalise(proj(emb(ids)))
    loss = (z[:, :-1] * z[:, 1:]).sum(-1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
