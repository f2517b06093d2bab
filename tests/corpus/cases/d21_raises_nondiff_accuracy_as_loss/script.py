import torch
import torch.nn as nn

torch.manual_seed(0)


def error_rate(logits, labels):
    _, predicted = logits.max(dim=1)
    return (predicted != labels).float().mean()


class Config:
    loss_fn = staticmethod(error_rate)
    lr = 0.05
    steps = 3


model = nn.Sequential(nn.Linear(7, 14), nn.GELU(), nn.Linear(14, 4))
opt = torch.optim.SGD(model.parameters(), lr=Config.lr, momentum=0.9)
for step in range(Config.steps):
    x, y = torch.randn(64, 7), torch.randint(0, 4, (64,))
    loss = Config.loss_fn(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
