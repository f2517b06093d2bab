import torch
import torch.nn as nn


class AdaptiveGraph(nn.Module):
    def __init__(self, nodes=8, dim=5):
        super().__init__()
        self.source = nn.Parameter(torch.randn(nodes, dim))
        self.target = nn.Parameter(torch.randn(nodes, dim))
        self.adj = torch.softmax(torch.relu(self.source @ self.target.t()), dim=1)
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        return torch.relu(self.lin(self.adj @ x))


torch.manual_seed(0)
net = AdaptiveGraph()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(3):
    x = torch.randn(16, 8, 3)
    loss = (net(x) - x.roll(1, 0)).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
