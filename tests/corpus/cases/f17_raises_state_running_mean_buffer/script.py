import torch
import torch.nn as nn

torch.manual_seed(0)


class CenterLoss(nn.Module):
    def __init__(self, n, dim, momentum=0.9):
        super().__init__()
        self.register_buffer("centers", torch.zeros(n, dim))
        self.momentum = momentum

    def forward(self, z, y):
        onehot = nn.functional.one_hot(y, len(self.centers)).float()
        batch = onehot.T @ z / (onehot.sum(0)[:, None] + 1)
        self.centers = self.momentum * self.centers + (1 - self.momentum) * batch
        return (z - self.centers[y]).pow(2).sum(1).mean()


enc, center = nn.Linear(6, 3), CenterLoss(4, 3)
opt = torch.optim.SGD(enc.parameters(), lr=0.1)
for step in range(3):
    loss = center(torch.tanh(enc(torch.randn(10, 6))), torch.randint(0, 4, (10,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
