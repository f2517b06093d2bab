"""One vector goes in, one number comes out: the gradient is a vector as well, log(x0 * x1) * sin(x1)."""

import torch

x = torch.tensor([0.5, 0.75], requires_grad=True)

y = torch.log(x[0] * x[1]) * torch.sin(x[1])
y.backward()

print(x.grad)
assert torch.allclose(x.grad, torch.tensor([1.3633, 0.1912]), atol=1e-4)
