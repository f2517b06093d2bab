import torch
import torch.nn as nn

torch.manual_seed(0)


class Whiten(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.count += 1
            self.mean = self.mean + (x.detach().mean(0) - self.mean) / self.count
        return x - self.mean


a, w, b = nn.Linear(5, 6), Whiten(6), nn.Linear(6, 1)
opt = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)
for _ in range(4):
    x = torch.randn(12, 5)
    loss = (b(torch.relu(w(a(x)))) - x[:, :1]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
