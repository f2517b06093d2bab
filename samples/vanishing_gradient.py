"""Ten layers with sigmoids: each passes on a tenth of the gradient, so the first layers learn nothing."""

import torch
from torch import nn

torch.manual_seed(0)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return torch.sigmoid(self.linear(x))


model = nn.Sequential(*[Layer(16) for _ in range(10)], nn.Linear(16, 3))
inputs = torch.randn(8, 16)
labels = torch.randint(0, 3, (8,))

loss = nn.functional.cross_entropy(model(inputs), labels)
loss.backward()

first, last = model[0].linear.weight.grad, model[9].linear.weight.grad
assert first.norm() < 1e-6 * last.norm()
