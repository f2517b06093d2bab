import torch
import torch.nn as nn

torch.manual_seed(0)
head = nn.Linear(4, 1)
nn.init.constant_(head.bias, 50.0)
trunk = nn.Linear(4, 4)
opt = torch.optim.SGD([*head.parameters(), *trunk.parameters()], lr=0.01)
cap = torch.tensor(10.0)
for step in range(3):
    x = torch.randn(20, 4)
    rate = torch.minimum(head(torch.tanh(trunk(x))), cap)
    loss = (rate - x.sum(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
