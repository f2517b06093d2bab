import torch
import torch.nn as nn


class MultiTask(nn.Module):
    def __init__(self, tasks=3):
        super().__init__()
        self.body = nn.Linear(6, 12)
        self.heads = nn.ModuleList(nn.Linear(12, 2) for _ in range(tasks))

    def forward(self, x):
        h = torch.relu(self.body(x))
        return [head(h) for head in self.heads]


torch.manual_seed(0)
model = MultiTask()
criterion = nn.CrossEntropyLoss()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(4):
    x = torch.randn(20, 6)
    targets = torch.randint(0, 2, (3, 20))
    loss = torch.zeros(())
    for out, y in zip(model(x), targets):
        loss = criterion(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
