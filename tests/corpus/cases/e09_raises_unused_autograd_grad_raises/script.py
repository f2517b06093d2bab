import torch

torch.manual_seed(0)
w1 = torch.randn(4, 8, requires_grad=True)
w2 = torch.randn(8, 1, requires_grad=True)
b2 = torch.zeros(1, requires_grad=True)


def net(x, params):
    w, v, b = params
    h = torch.relu(x @ w)
    return h.sum(1, keepdim=True) + b


def inner_step(params, x, y, lr=0.1):
    loss = (net(x, params) - y).pow(2).mean()
    grads = torch.autograd.grad(loss, params, create_graph=True)
    return [p - lr * g for p, g in zip(params, grads)]


meta = torch.optim.Adam([w1, w2, b2], lr=1e-3)
for it in range(2):
    fast = inner_step([w1, w2, b2], torch.randn(5, 4), torch.randn(5, 1))
    outer = (net(torch.randn(5, 4), fast) - torch.randn(5, 1)).pow(2).mean()
    meta.zero_grad()
    outer.backward()
    meta.step()
