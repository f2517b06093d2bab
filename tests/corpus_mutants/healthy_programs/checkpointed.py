import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        h = torch.tanh(self.fc(x))
        return x + self.drop(h)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(12) for _ in range(3)])
        self.head = nn.Linear(12, 1)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


model = Net()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(32, 12)
y = x[:, :1] * 2
for step in range(5):
    opt.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    opt.step()
