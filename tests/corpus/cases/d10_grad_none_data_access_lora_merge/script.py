import torch
import torch.nn as nn

torch.manual_seed(0)


class Adapter(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(0.1 * torch.randn(rank, base.in_features))
        self.up = nn.Parameter(0.1 * torch.randn(base.out_features, rank))
        self.bias = nn.Parameter(torch.zeros(base.out_features))
        base.requires_grad_(False)

    def delta(self):
        return self.up.data @ self.down.data

    def forward(self, x):
        return nn.functional.linear(x, self.base.weight + self.delta(), self.bias)


layer = Adapter(nn.Linear(8, 8), 2)
optimizer = torch.optim.AdamW([p for p in layer.parameters() if p.requires_grad], lr=1e-3)
for step in range(3):
    x = torch.randn(16, 8)
    loss = (layer(x) - x.flip(1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
