import torch


class Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.log1p(torch.exp(x))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.sigmoid(-x)  # wrong: it is sigmoid(x)


torch.manual_seed(0)
x = torch.randn(5, dtype=torch.float64, requires_grad=True)
loss = Softplus.apply(x).sum()
loss.backward()
