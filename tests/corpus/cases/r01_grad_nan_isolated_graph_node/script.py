import torch
import torch.nn as nn


class MeanConv(nn.Module):
    def __init__(self, fin, fout):
        super().__init__()
        self.lin = nn.Linear(fin, fout)

    def forward(self, x, edges):
        src, dst = edges
        total = torch.zeros_like(x).index_add(0, dst, x[src])
        degree = torch.bincount(dst, minlength=x.shape[0]).to(x.dtype)
        mean = total / degree.unsqueeze(1)
        return self.lin(mean)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = MeanConv(5, 16), MeanConv(16, 3)
        self.lin1, self.lin2 = self.conv1.lin, self.conv2.lin

    def forward(self, x, edges):
        return self.conv2(torch.relu(self.conv1(x, edges)), edges)


torch.manual_seed(1)
edges = torch.tensor([[0, 1, 2, 3, 4, 1, 2], [1, 2, 3, 4, 0, 0, 4]])
x = torch.randn(6, 5)
y = torch.tensor([0, 1, 2, 0, 1, 2])
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(5):
    opt.zero_grad()
    out = net(x, edges)
    loss = nn.functional.cross_entropy(out, y)
    loss.backward()
    opt.step()
