import torch
import torch.nn as nn

torch.manual_seed(0)
mlp = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1), nn.ReLU())
opt = torch.optim.SGD(mlp.parameters(), lr=50.0)
x = torch.rand(64, 3)
y = x.sum(1, keepdim=True)
for step in range(8):
    loss = (mlp(x) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
