import torch
import torch.nn as nn


class AverageMeter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n):
        self.total = self.total + value * n
        self.count += n

    @property
    def avg(self):
        return self.total / self.count


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
meters = {"loss": AverageMeter(), "lr": AverageMeter()}
for step in range(30):
    x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    meters["loss"].update(loss, len(x))
print(float(meters["loss"].avg))
