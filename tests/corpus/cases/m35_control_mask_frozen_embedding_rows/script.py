import torch
import torch.nn as nn

torch.manual_seed(0)
emb, fc = nn.Embedding(12, 6), nn.Linear(6, 3)
trainable = torch.zeros(12, 1)
trainable[8:] = 1
emb.weight.register_hook(lambda g: g * trainable)
opt = torch.optim.SGD([*emb.parameters(), *fc.parameters()], lr=0.1)
for _ in range(3):
    ids = torch.randint(0, 12, (10,))
    ids[0] = 9
    loss = nn.functional.cross_entropy(fc(emb(ids)), torch.randint(0, 3, (10,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
