import torch
import torch.nn as nn

torch.manual_seed(0)


class WithAdapter(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.adapter = nn.Linear(8, 8)

    def forward(self, x):
        h = self.base(x)
        return h + self.adapter(h)


net = WithAdapter(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
net.requires_grad_(False)
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
for _ in range(2):
    x = torch.randn(5, 8)
    loss = (net(x) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
