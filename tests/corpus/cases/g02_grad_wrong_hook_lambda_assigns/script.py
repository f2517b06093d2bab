import torch
import torch.nn as nn

torch.manual_seed(0)
emb, fc = nn.Embedding(10, 5), nn.Linear(5, 2)
seen = []
emb.weight.register_hook(lambda g: seen.append(g.abs().max()) or g.zero_())
opt = torch.optim.Adam([*emb.parameters(), *fc.parameters()])
for step in range(3):
    loss = nn.functional.cross_entropy(fc(emb(torch.randint(0, 10, (8,)))), torch.randint(0, 2, (8,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
