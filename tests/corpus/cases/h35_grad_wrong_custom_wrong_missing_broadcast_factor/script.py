import torch


class LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        m = x.max(-1, keepdim=True).values
        e = (x - m).exp()
        ctx.save_for_backward(e)
        return (e.sum(-1, keepdim=True).log() + m).squeeze(-1)

    @staticmethod
    def backward(ctx, g):
        e, = ctx.saved_tensors
        return g[..., None] * e


torch.manual_seed(0)
w = torch.randn(5, 4, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.05)
for _ in range(3):
    x, y = torch.randn(9, 5), torch.randint(0, 4, (9,))
    z = x @ w
    loss = (LogSumExp.apply(z) - z.gather(1, y[:, None]).squeeze(1)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
