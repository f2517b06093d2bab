import torch
import torch.nn as nn


class PixelNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(64, 8)
        self.cls = nn.Linear(8, 3)

    def forward(self, img):
        h = torch.tanh(self.proj(img.flatten(1)))
        return self.cls(h)


torch.manual_seed(0)
net = PixelNet()
with torch.no_grad():
    net.proj.weight.uniform_(0, 0.2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
images = torch.randint(0, 256, (12, 1, 8, 8)).float()
labels = torch.randint(0, 3, (12,))
for epoch in range(4):
    loss = nn.functional.cross_entropy(net(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
