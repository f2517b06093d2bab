import torch
import torch.nn as nn

torch.manual_seed(0)


class Depth(nn.Module):
    def __init__(self, bins=8):
        super().__init__()
        self.offset = nn.Linear(5, 1)
        self.table = nn.Embedding(bins + 1, 4)
        self.out = nn.Linear(4, 1)
        self.register_buffer("edges", torch.linspace(-1, 1, bins))

    def forward(self, x):
        idx = torch.bucketize(self.offset(x).squeeze(1), self.edges)
        return self.out(self.table(idx)).squeeze(1)


net = Depth()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(3):
    x = torch.randn(32, 5)
    loss = nn.functional.l1_loss(net(x), x.norm(dim=1))
    opt.zero_grad()
    loss.backward()
    opt.step()
