import torch
from torch import nn

features = {}


def keep(name):
    def hook(module, inputs, output):
        features[name] = output.detach()
        return features[name]
    return hook


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU())
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        x = self.body(torch.relu(self.stem(x)))
        return self.fc(x.mean((2, 3)))


torch.manual_seed(0)
net = Net()
net.body.register_forward_hook(keep("body"))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(6, 1, 8, 8), torch.randint(0, 2, (6,))
for i in range(4):
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
