import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class SAM:
    def __init__(self, params, base, rho=0.05):
        self.params = list(params)
        self.base = base
        self.rho = rho

    @torch.no_grad()
    def climb(self):
        norm = torch.stack([p.grad.norm() for p in self.params]).norm() + 1e-12
        self.offsets = [p.grad * self.rho / norm for p in self.params]
        for p, offset in zip(self.params, self.offsets):
            p.add_(offset)

    @torch.no_grad()
    def descend(self):
        for p, offset in zip(self.params, self.offsets):
            p.sub_(offset)
        self.base.step()


model = nn.Sequential(nn.Linear(6, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))
sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
sam = SAM(model.parameters(), sgd)
for step in range(5):
    x = torch.randn(32, 6)
    y = x.sin().sum(1, keepdim=True)
    sgd.zero_grad()
    first = F.mse_loss(model(x), y)
    first.backward()
    sam.climb()
    sgd.zero_grad()
    second = F.mse_loss(model(x), y)
    second.backward()
    sam.descend()
