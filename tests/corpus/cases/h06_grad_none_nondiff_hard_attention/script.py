import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class HardAttention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.score, self.value = nn.Linear(d, 1), nn.Linear(d, d)

    def forward(self, x):
        s = self.score(x).squeeze(-1)
        pick = F.one_hot(s.argmax(-1), x.size(1)).float()
        return (pick[..., None] * self.value(x)).sum(1)


att, cls = HardAttention(6), nn.Linear(6, 2)
opt = torch.optim.Adam([*att.parameters(), *cls.parameters()])
for _ in range(3):
    loss = F.cross_entropy(cls(att(torch.randn(8, 5, 6))), torch.randint(0, 2, (8,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
