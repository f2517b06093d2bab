import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

backbone = nn.Sequential(nn.Linear(10, 24), nn.BatchNorm1d(24), nn.ReLU())
head = nn.Linear(24, 3)
x, y = torch.randn(60, 10), torch.randint(0, 3, (60,))


def run(params, epochs, lr):
    opt = torch.optim.Adam(params, lr=lr)
    for _ in range(epochs):
        features = backbone(x)
        loss = F.cross_entropy(head(features), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


for p in backbone.parameters():
    p.requires_grad = False
run(head.parameters(), 3, 1e-2)
for p in backbone.parameters():
    p.requires_grad = True
run([*backbone.parameters(), *head.parameters()], 3, 1e-3)
