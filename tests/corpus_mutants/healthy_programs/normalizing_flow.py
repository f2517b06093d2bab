import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

from torch.distributions import Normal


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        shift, log_scale = self.net(a).chunk(2, dim=1)
        scale = torch.tanh(log_scale)
        b = b * scale.exp() + shift
        out = torch.cat([b, a], 1) if self.flip else torch.cat([a, b], 1)
        return out, scale.sum(1)


flow = nn.ModuleList([Coupling(i % 2 == 0) for i in range(3)])
opt = torch.optim.Adam(flow.parameters(), lr=5e-3)
prior = Normal(0.0, 1.0)
for step in range(5):
    z = torch.randn(64, 2) * torch.tensor([2.0, 0.5]) + 1
    log_det = torch.zeros(64)
    for layer in flow:
        z, ld = layer(z)
        log_det = log_det + ld
    log_prob = prior.log_prob(z).sum(1) + log_det
    loss = -log_prob.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
