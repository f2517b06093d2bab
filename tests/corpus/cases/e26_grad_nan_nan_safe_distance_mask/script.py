import torch
import torch.nn as nn

torch.manual_seed(0)


class EdgeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.pos = nn.Linear(3, 3)
        self.edge = nn.Linear(1, 4)

    def forward(self, x, src, dst):
        p = self.pos(x)
        d2 = (p[src] - p[dst]).pow(2).sum(-1, keepdim=True)
        d = d2.sqrt()
        d = d.masked_fill((src == dst)[:, None], 0.0)
        msg = torch.tanh(self.edge(d))
        return torch.zeros(len(x), 4).index_add(0, dst, msg)


gnn = EdgeNet()
opt = torch.optim.Adam(gnn.parameters())
for step in range(2):
    x = torch.randn(6, 3)
    src, dst = torch.meshgrid(torch.arange(6), torch.arange(6), indexing="ij")
    loss = gnn(x, src.flatten(), dst.flatten()).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
