import torch
import torch.nn as nn

torch.manual_seed(0)


class ComplexLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.wr, self.wi = nn.Parameter(torch.randn(i, o)), nn.Parameter(torch.randn(i, o))

    def forward(self, z):
        return z @ torch.complex(self.wr, self.wi)


layer, out = ComplexLinear(6, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*layer.parameters(), *out.parameters()], lr=0.01)
for _ in range(3):
    z = torch.randn(10, 6, dtype=torch.cfloat)
    feat = layer(z).float()
    loss = (out(feat).squeeze(1) - z.abs().sum(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
