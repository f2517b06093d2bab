import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        for block in self.blocks[:1]:
            x = checkpoint(lambda t: torch.relu(block(t)), x, use_reentrant=True)
        for block in self.blocks[1:]:
            x = torch.relu(block(x))
        return self.head(x)


stack = Stack()
opt = torch.optim.Adam(stack.parameters())
for _ in range(2):
    loss = stack(torch.randn(8, 6)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
