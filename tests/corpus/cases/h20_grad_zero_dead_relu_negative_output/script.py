import torch
import torch.nn as nn

torch.manual_seed(0)
reg = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
nn.init.uniform_(reg[2].weight, -0.01, 0.01)
reg[2].bias.data.fill_(-5.0)
opt = torch.optim.Adam(reg.parameters(), lr=1e-3)
for _ in range(4):
    x = torch.randn(16, 4)
    count = torch.relu(reg(x))
    loss = (count - x.abs().sum(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
