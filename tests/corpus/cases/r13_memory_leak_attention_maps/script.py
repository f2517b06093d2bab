import torch
import torch.nn as nn


class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d)
        self.maps = []

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        a = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)
        self.maps.append(a)
        return a @ v


class Runner:
    def __init__(self, model):
        self.model, self.opt = model, torch.optim.Adam(model.parameters())

    def step(self, batch):
        self.opt.zero_grad()
        loss = (self.model(batch) - batch).pow(2).mean()
        loss.backward()
        self.opt.step()
        return loss.item()


torch.manual_seed(0)
model = Attention(16)
runner = Runner(model)
curve = [runner.step(torch.randn(8, 12, 16)) for _ in range(12)]
print(curve[-1])
