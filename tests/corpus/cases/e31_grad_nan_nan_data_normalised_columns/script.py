import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Table(Dataset):
    def __init__(self, rows):
        self.y = rows[:, 0]
        self.x = rows[:, 1:]
        self.x = (self.x - self.x.mean(0)) / self.x.std(0)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


torch.manual_seed(0)
rows = torch.randn(40, 6)
rows[:, 3] = 1.0
loader = DataLoader(Table(rows), batch_size=10, shuffle=True)
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.Adam(model.parameters())
for x, y in loader:
    loss = nn.functional.mse_loss(model(x).squeeze(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
