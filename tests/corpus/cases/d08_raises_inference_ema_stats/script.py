import torch
import torch.nn as nn


class RunningNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))

    def calibrate(self, sample):
        with torch.inference_mode():
            self.mean = sample.mean(0)
            self.scale = (sample.var(0) + 1e-5).rsqrt()

    def forward(self, x):
        return (x - self.mean) * self.scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 6)
        self.norm = RunningNorm(6)
        self.out = nn.Linear(6, 1)

    def forward(self, x):
        return self.out(self.norm(self.lin(x)).relu())


torch.manual_seed(2)
net = Net()
net.norm.calibrate(torch.randn(100, 6))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    x = torch.randn(16, 6)
    loss = net(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
