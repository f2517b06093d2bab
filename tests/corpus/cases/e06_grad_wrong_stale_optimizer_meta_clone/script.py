import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
b = torch.zeros((), requires_grad=True)
opt = torch.optim.SGD([w, b], lr=0.1)
w = w.detach().clone().requires_grad_()
b = b.detach().clone().requires_grad_()
x = torch.randn(64, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.3
history = []
for step in range(5):
    opt.zero_grad()
    loss = (x @ w + b - y).square().mean()
    loss.backward()
    opt.step()
    history.append(loss.item())
print(history)
