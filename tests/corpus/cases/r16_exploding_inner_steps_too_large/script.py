import torch

torch.manual_seed(0)
init = torch.nn.Parameter(torch.randn(6))
meta = torch.optim.SGD([init], lr=1e-30)
H = torch.diag(torch.linspace(1.0, 10.0, 6))


def inner(theta, steps=20, lr=0.5):
    for _ in range(steps):
        grad = H @ theta
        theta = theta - lr * grad
    return theta


for it in range(2):
    loss = inner(init).pow(2).mean().sqrt()
    meta.zero_grad()
    loss.backward()
    meta.step()
    print(loss.item(), init.grad.norm().item())
