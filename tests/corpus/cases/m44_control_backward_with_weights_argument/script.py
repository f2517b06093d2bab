import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(6, 4)
    per_sample = (net(x).squeeze(1) - x.sum(1)).pow(2)
    weight = torch.softmax(torch.randn(6), 0)
    opt.zero_grad()
    per_sample.backward(gradient=weight)
    opt.step()
