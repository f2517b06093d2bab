import torch


class Smooth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        with torch.no_grad():
            return g * 3 * x ** 2


torch.manual_seed(0)
theta = torch.randn(4, requires_grad=True)
opt = torch.optim.SGD([theta], lr=0.01)
for task in range(3):
    x, y = torch.randn(10, 4), torch.randn(10)
    inner = (Smooth.apply(x @ theta) - y).pow(2).mean()
    g, = torch.autograd.grad(inner, theta, create_graph=True)
    fast = theta - 0.01 * g
    outer = ((x @ fast) - y).pow(2).mean()
    opt.zero_grad()
    outer.backward()
    opt.step()
