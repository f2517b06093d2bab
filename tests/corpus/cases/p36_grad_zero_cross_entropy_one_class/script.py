import torch
import torch.nn as nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(5, 10)
        self.fc2 = nn.Linear(10, 1)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


def train():
    torch.manual_seed(0)
    clf = Classifier()
    criterion = nn.CrossEntropyLoss()
    opt = torch.optim.Adam(clf.parameters(), lr=1e-2)
    x = torch.randn(40, 5)
    y = torch.zeros(40, dtype=torch.long)
    for epoch in range(5):
        out = clf(x)
        loss = criterion(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{epoch}: {loss.item():.3f}")


train()
