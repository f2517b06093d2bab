import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(6, 20), nn.Linear(20, 1)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))

    @torch.no_grad()
    def prune(self, keep):
        idx = self.hidden.weight.norm(dim=1).topk(keep).indices
        self.hidden.weight = nn.Parameter(self.hidden.weight[idx].clone())
        self.hidden.bias = nn.Parameter(self.hidden.bias[idx].clone())
        self.out.weight = nn.Parameter(self.out.weight[:, idx].clone())


torch.manual_seed(0)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(6):
    if epoch == 2:
        net.prune(10)
    x = torch.randn(32, 6)
    loss = (net(x).squeeze(1) - x.abs().sum(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
