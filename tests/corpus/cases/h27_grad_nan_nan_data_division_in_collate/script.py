import torch
import torch.nn as nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
docs = [torch.randint(0, 3, (6,)) for _ in range(7)] + [torch.zeros(0, dtype=torch.long)]


def collate(batch):
    counts = torch.stack([torch.bincount(d, minlength=3).float() for d in batch])
    freq = counts / counts.sum(1, keepdim=True)
    return freq, torch.ones(len(batch), 1)


m = nn.Linear(3, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for x, y in DataLoader(docs, batch_size=4, collate_fn=collate):
    loss = (m(x) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
