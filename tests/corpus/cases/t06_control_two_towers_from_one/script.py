import copy
import torch
from torch import nn

torch.manual_seed(0)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 6))
        self.item = copy.deepcopy(self.user)
        self.logit_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, u, i):
        u = nn.functional.normalize(self.user(u), dim=-1)
        i = nn.functional.normalize(self.item(i), dim=-1)
        return self.logit_scale.exp().clamp(max=100) * u @ i.T


model = TwoTower()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(5):
    u = torch.randn(12, 8)
    i = u.flip(1) + 0.1 * torch.randn(12, 8)
    logits = model(u, i)
    y = torch.arange(12)
    loss = (nn.functional.cross_entropy(logits, y) + nn.functional.cross_entropy(logits.T, y)) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
