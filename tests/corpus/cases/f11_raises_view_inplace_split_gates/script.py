import torch
import torch.nn as nn

torch.manual_seed(0)


class Core(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.gates = nn.Linear(2 * n, 3 * n)
        self.n = n

    def forward(self, x, h):
        i, f, c = torch.split(self.gates(torch.cat([x, h], -1)), self.n, dim=-1)
        i.sigmoid_()
        f.sigmoid_()
        return f * h + i * c.tanh()


core = Core(5)
opt = torch.optim.Adam(core.parameters())
h = torch.zeros(4, 5)
for t in range(3):
    h = core(torch.randn(4, 5), h)
loss = h.pow(2).mean()
opt.zero_grad()
loss.backward()
opt.step()
