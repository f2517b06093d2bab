import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

x = torch.randn(40, 5)
y = torch.sin(x).sum(1)
w1 = (torch.randn(5, 16) * 0.3).requires_grad_()
b1 = torch.zeros(16, requires_grad=True)
w2 = (torch.randn(16) * 0.3).requires_grad_()
params = [w1, b1, w2]
for step in range(8):
    h = torch.tanh(x @ w1 + b1)
    pred = h @ w2
    loss = (pred - y).square().mean()
    loss.backward()
    with torch.no_grad():
        w1 -= 0.05 * w1.grad
        b1 -= 0.05 * b1.grad
        w2 -= 0.05 * w2.grad
    for p in params:
        p.grad.zero_()
