import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
opt = torch.optim.Adam(net.parameters())
criteria = {"mse": nn.MSELoss(), "l1": nn.L1Loss(), "huber": nn.SmoothL1Loss()}
weights = torch.tensor([1.0, 0.5, 0.1])
for step in range(3):
    x = torch.randn(10, 4)
    out, target = net(x), torch.randn(10, 3)
    values = torch.Tensor([c(out, target) for c in criteria.values()])
    total = (weights * values).sum()
    opt.zero_grad()
    total.backward()
    opt.step()
