import torch
import torch.nn as nn


class Trainer:
    def __init__(self, model, opts):
        self.model, self.opts = model, opts

    def step(self, x, y):
        for o in self.opts:
            o.zero_grad()
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        for o in self.opts:
            o.step()
        return loss.detach()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
t = Trainer(model, [torch.optim.Adam(model[0].parameters()), torch.optim.SGD(model[2].parameters(), lr=0.1)])
running = 0.0
for _ in range(5):
    x = torch.randn(16, 4)
    running = 0.9 * running + 0.1 * t.step(x, x.flip(1))
