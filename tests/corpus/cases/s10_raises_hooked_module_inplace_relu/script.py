import torch
import torch.nn as nn
import torch.nn.functional as F

norms = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        h = self.conv(x)
        h = F.relu_(h)
        return self.fc(h.mean((2, 3)))


torch.manual_seed(0)
net = Net()
net.conv.register_full_backward_hook(lambda m, gi, go: norms.append(go[0].norm().item()))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = F.cross_entropy(net(torch.randn(5, 1, 8, 8)), torch.randint(0, 3, (5,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
