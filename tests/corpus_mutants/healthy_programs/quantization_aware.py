import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class FakeQuantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return torch.clamp(torch.round(x / scale), -8, 7) * scale

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        inside = ((x / scale) >= -8) & ((x / scale) <= 7)
        error = torch.round(x / scale) - x / scale
        return grad * inside, (grad * torch.where(inside, error, (x / scale).clamp(-8, 7))).sum().reshape(scale.shape)


class QuantLinear(nn.Linear):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.scale = nn.Parameter(torch.tensor([0.1]))

    def forward(self, x):
        weight = FakeQuantize.apply(self.weight, self.scale)
        return F.linear(x, weight, self.bias)


model = nn.Sequential(QuantLinear(10, 24), nn.BatchNorm1d(24), nn.ReLU(), QuantLinear(24, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for epoch in range(2):
    model.train()
    for batch in range(3):
        x, y = torch.randn(16, 10), torch.randint(0, 3, (16,))
        optimizer.zero_grad()
        output = model(x)
        loss = criterion(output, y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(epoch, criterion(model(x), y).item())
