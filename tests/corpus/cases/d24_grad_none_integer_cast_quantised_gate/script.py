import torch
import torch.nn as nn

torch.manual_seed(0)


class Gated(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.gate = nn.Linear(dim, 1)
        self.left, self.right = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        g = torch.sigmoid(self.gate(x))
        g = (g * 255).type(torch.uint8)
        g = g.float() / 255
        return g * self.left(x) + (1 - g) * self.right(x)


moe = Gated()
opt = torch.optim.AdamW(moe.parameters())
for _ in range(3):
    x = torch.randn(12, 8)
    loss = moe(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
