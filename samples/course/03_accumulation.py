""".grad is added to, never replaced: that is why optimizers zero it."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
inputs = torch.randn(8, 3)

model(inputs).mean().backward()
once = model.weight.grad.clone()
model(inputs).mean().backward()
assert torch.equal(model.weight.grad, 2 * once)  # two backward calls, their sum

# Parts of a batch, each divided by the number of parts, give the gradient of the whole batch.
model.weight.grad = None
for part in inputs.split(2):
    (model(part).mean() / 4).backward()
assert torch.allclose(model.weight.grad, once)
