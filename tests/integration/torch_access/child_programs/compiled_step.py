"""A compiled training step, and a backward that fails."""

import torch
import torch.export._trace


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 4)
        self.second = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


torch.manual_seed(0)
net = torch.compile(Net(), backend="aot_eager")
net(torch.ones(2, 3)).square().mean().backward()
print(net.first.weight.grad.sum().item())
broken = torch.ones(3, requires_grad=True)
hidden = broken.exp()
loss = (hidden * hidden).sum()
with torch.no_grad():
    hidden.add_(1)
loss.backward()
