import torch
import torch.nn as nn

torch.manual_seed(0)
emb = nn.Embedding(10, 4)
glove = {3: torch.ones(4), 5: -torch.ones(4)}
for index, vector in glove.items():
    emb.weight[index].copy_(vector)
opt = torch.optim.Adam(emb.parameters())
loss = emb(torch.tensor([3, 5])).pow(2).mean()
loss.backward()
opt.step()
