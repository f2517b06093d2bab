import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.bn = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3)
        self.dropout = nn.Dropout(0.25)
        self.fc = nn.Linear(8 * 16, 10)

    def forward(self, x):
        x = F.relu(self.bn(self.conv1(x)))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = self.dropout(torch.flatten(x, 1))
        x = self.fc(x)
        return x


def train(model, batches, optimizer):
    model.train()
    for data, target in batches:
        optimizer.zero_grad()
        output = model(data)
        loss = F.cross_entropy(output, target)
        loss.backward()
        optimizer.step()


def test(model, batches):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for data, target in batches:
            total += F.cross_entropy(model(data), target, reduction="sum").item()
    return total


batches = [(torch.randn(16, 1, 12, 12), torch.randint(0, 10, (16,))) for _ in range(3)]
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    train(model, batches, optimizer)
    print(epoch, test(model, batches))
