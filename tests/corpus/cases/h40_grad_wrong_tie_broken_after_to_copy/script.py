import copy
import torch
import torch.nn as nn

torch.manual_seed(0)
emb, head = nn.Embedding(12, 6), nn.Linear(6, 12, bias=False)
head.weight = emb.weight
head = copy.deepcopy(head)
opt = torch.optim.Adam([*emb.parameters(), *head.parameters()])
for _ in range(3):
    ids = torch.randint(0, 12, (5, 6))
    loss = nn.functional.cross_entropy(head(emb(ids[:, :-1])).flatten(0, 1), ids[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
