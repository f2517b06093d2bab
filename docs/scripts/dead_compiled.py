import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.last = nn.Linear(8, 1)
        nn.init.constant_(self.first.bias, -20.0)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


torch.manual_seed(0)
model = torch.compile(Net(), backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()
