import torch
import torch.nn as nn

torch.manual_seed(0)
emb, cls = nn.Embedding(12, 6), nn.Linear(6, 2)
opt = torch.optim.Adam([*emb.parameters(), *cls.parameters()])
for step in range(2):
    sentences = emb(torch.randint(0, 12, (5, 4)))
    for i, tokens in enumerate(sentences):
        tokens *= 1.0 / (i + 1)
    loss = nn.functional.cross_entropy(cls(sentences.mean(1)), torch.randint(0, 2, (5,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
