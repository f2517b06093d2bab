import torch
from torch import nn


def init_weights(m):
    if isinstance(m, (nn.Linear, nn.Embedding)):
        m.weight = nn.Parameter(torch.randn_like(m.weight) * 0.02)


class LM(nn.Module):
    def __init__(self, v=32, d=12):
        super().__init__()
        self.tok = nn.Embedding(v, d)
        self.mixer = nn.Linear(d, d)
        self.head = nn.Linear(d, v, bias=False)
        self.head.weight = self.tok.weight
        self.apply(init_weights)

    def forward(self, ids):
        return self.head(torch.tanh(self.mixer(self.tok(ids).cumsum(1))))


torch.manual_seed(0)
model = LM()
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(4):
    ids = torch.randint(0, 32, (4, 9))
    loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
