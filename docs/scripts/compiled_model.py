import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


torch.manual_seed(0)
model = nn.Sequential(Block(), Block())
compiled = torch.compile(model, backend="aot_eager")
loss = compiled(torch.randn(8, 16)).square().mean()
loss.backward()
