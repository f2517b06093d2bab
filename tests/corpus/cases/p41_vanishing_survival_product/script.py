import torch
import torch.nn as nn

torch.manual_seed(0)
hazard = nn.Linear(3, 1)
opt = torch.optim.SGD(hazard.parameters(), lr=0.1)
x = torch.randn(20, 40, 3)
alive = torch.ones(20)

for epoch in range(3):
    survival = torch.ones(20)
    for t in range(40):
        survival = survival * torch.sigmoid(hazard(x[:, t]).squeeze(-1))
    loss = (survival - alive).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
