import torch
import torch.nn as nn

torch.manual_seed(0)
blocks = nn.ModuleList(nn.Linear(10, 10, bias=False) for _ in range(16))
for b in blocks:
    nn.init.orthogonal_(b.weight, gain=4.0)
head = nn.Linear(10, 1)
opt = torch.optim.SGD([*blocks.parameters(), *head.parameters()], lr=1e-15)


def net(x):
    for b in blocks:
        x = torch.nn.functional.leaky_relu(b(x), 0.3)
    return head(x)


for step in range(2):
    loss = net(torch.randn(8, 10)).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
