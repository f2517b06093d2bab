import torch
import torch.nn as nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.fc = nn.Linear(8, 8)
        self.cls = nn.Linear(8, 3)

    def forward(self, ids, lengths):
        h = torch.tanh(self.fc(self.emb(ids)))
        keep = torch.arange(ids.size(1))[None] >= lengths[:, None] + ids.size(1)
        h = h * keep[..., None]
        return self.cls(h.sum(1) / lengths[:, None])


enc = Encoder()
opt = torch.optim.Adam(enc.parameters())
for step in range(3):
    ids, lengths = torch.randint(0, 20, (8, 6)), torch.randint(2, 7, (8,))
    loss = nn.functional.cross_entropy(enc(ids, lengths), torch.randint(0, 3, (8,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
