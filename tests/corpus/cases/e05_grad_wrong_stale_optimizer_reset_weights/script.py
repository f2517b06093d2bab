import copy
import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)


def reinit_last(net):
    fresh = copy.deepcopy(net[2])
    fresh.reset_parameters()
    net[2] = fresh


reinit_last(net)
x, y = torch.randn(50, 5), torch.randint(0, 2, (50,))
for step in range(6):
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
