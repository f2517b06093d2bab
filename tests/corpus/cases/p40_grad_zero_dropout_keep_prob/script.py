import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, keep_prob=1.0):
        super().__init__()
        self.keep_prob = keep_prob
        self.fc1 = nn.Linear(8, 16)
        self.fc2 = nn.Linear(16, 1)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        h = F.dropout(h, p=self.keep_prob, training=self.training)
        return self.fc2(h)


torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(32, 8)
y = x.sum(1, keepdim=True)
for _ in range(5):
    loss = (net(x) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
