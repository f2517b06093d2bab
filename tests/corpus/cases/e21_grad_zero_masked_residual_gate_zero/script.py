import torch
import torch.nn as nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.f, self.g = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.register_buffer("layer_scale", torch.zeros(dim))

    def forward(self, x):
        return x + self.layer_scale * self.g(torch.relu(self.f(x)))


block, out = Block(8), nn.Linear(8, 2)
opt = torch.optim.SGD([*block.parameters(), *out.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(30, 8)
    loss = nn.functional.cross_entropy(out(block(x)), (x.sum(1) > 0).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
