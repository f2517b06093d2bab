"""The gradient of where() is NaN although it drops the branch without a finite slope, because 0 times Inf is NaN."""

import torch

x = torch.tensor([0.0, 1.0, 4.0], requires_grad=True)
scale = torch.tensor(2.0, requires_grad=True)

positive = x > 0
roots = torch.where(positive, torch.sqrt(x * scale), torch.zeros(()))
loss = roots.sum()
loss.backward()

assert loss.isfinite()
assert x.grad.isnan().tolist() == [True, False, False]
assert scale.grad.isnan()
