import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(5, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(64, 5)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    torch.autograd.backward([loss], [loss])
    opt.step()
