import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class MoE(nn.Module):
    def __init__(self, dim=8, experts=3):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(dim, 16), nn.ReLU(), nn.Linear(16, dim)) for _ in range(experts)])

    def forward(self, x):
        weights = F.softmax(self.gate(x), dim=-1)
        outputs = torch.stack([expert(x) for expert in self.experts], dim=1)
        mixed = (weights.unsqueeze(-1) * outputs).sum(1)
        balance = weights.mean(0).square().sum() * len(self.experts)
        return mixed, balance


model = MoE()
head = nn.Linear(8, 1)
opt = torch.optim.Adam(list(model.parameters()) + list(head.parameters()), lr=1e-2)
x = torch.randn(64, 8)
y = x.prod(1)
for step in range(6):
    h, balance = model(x)
    pred = head(h).squeeze(1)
    task = F.mse_loss(pred, y)
    loss = task + 0.01 * balance
    opt.zero_grad()
    loss.backward()
    opt.step()
