import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.5, inplace=True), nn.Linear(54, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    x = torch.randn(8, 1, 8, 8)
    loss = nn.functional.cross_entropy(net(x), torch.randint(0, 3, (8,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
