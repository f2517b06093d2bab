"""torch.compile with the eager backend: graphs, guards, breaks, recompilation."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x, scale=1.0):
        x = torch.relu(self.first(x)) * scale
        if x.sum() > 0:
            x = x + 1
        return self.last(x)


net = Net()
compiled = torch.compile(net, backend="eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []
for step in range(10):
    optimizer.zero_grad()
    loss = compiled(torch.randn(3 + step % 2, 4), scale=1.0 + step % 3).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
explained = torch._dynamo.explain(net)(torch.randn(3, 4))
counts = (explained.graph_count, explained.graph_break_count)
del explained
