import torch
import torch.nn as nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU())
probe = nn.Linear(16, 3)
backbone.eval()
opt = torch.optim.SGD(probe.parameters(), lr=0.1)
for step in range(4):
    x, y = torch.randn(12, 8), torch.randint(0, 3, (12,))
    with torch.no_grad():
        z = backbone(x)
    loss = nn.functional.cross_entropy(probe(z), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
