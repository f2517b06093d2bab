import torch
import torch.nn as nn

torch.manual_seed(0)


class Pretrained(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.fc = nn.Linear(8, 16), nn.Linear(16, 1000)

    def forward(self, x):
        return self.fc(torch.relu(self.features(x)))


model = Pretrained()
probe = torch.optim.SGD(model.parameters(), lr=0.1)
model.fc = nn.Linear(16, 3)
del probe
opt = torch.optim.SGD([{"params": model.features.parameters(), "lr": 1e-3}, {"params": model.fc.parameters()}], lr=0.05)
for _ in range(3):
    x, y = torch.randn(10, 8), torch.randint(0, 3, (10,))
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
