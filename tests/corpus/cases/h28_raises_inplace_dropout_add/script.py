import torch
import torch.nn as nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f, self.g = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        h = torch.sigmoid(self.f(x))
        skip = h
        h += self.g(h)
        return h * skip


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = net(torch.randn(5, 6)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
