import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 16)
        self.b = nn.Linear(16, 1)

    def run(self, xt):
        return self.b(torch.tanh(self.a(xt)))

    def forward(self, xt):
        return checkpoint(self.run, xt, use_reentrant=True)


torch.manual_seed(0)
net = Field()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(2):
    xt = torch.rand(32, 2, requires_grad=True)
    u = net(xt)
    (du,) = torch.autograd.grad(u.sum(), xt, create_graph=True)
    loss = (du[:, 1] + u.squeeze(-1) * du[:, 0]).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
