"""A loop by hand that never clears."""

import torch

torch.manual_seed(0)
w = torch.zeros(3, requires_grad=True)
for _ in range(3):
    (torch.randn(5, 3) @ w - 1).square().mean().backward()  # guilty
    w.data -= 0.1 * w.grad
