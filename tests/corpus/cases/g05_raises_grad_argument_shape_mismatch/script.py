import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
weights = torch.tensor([1.0, 2.0, 0.5])
for step in range(2):
    x = torch.randn(3, 4)
    out = net(x).pow(2)
    opt.zero_grad()
    out.backward(weights)
    opt.step()
