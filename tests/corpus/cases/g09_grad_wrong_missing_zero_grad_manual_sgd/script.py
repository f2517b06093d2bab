import torch

torch.manual_seed(0)
w = torch.zeros(5, requires_grad=True)
X = torch.randn(100, 5)
y = X @ torch.arange(5.0)
for i in range(6):
    loss = (X @ w - y).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.01 * w.grad
    print(i, loss.item())
