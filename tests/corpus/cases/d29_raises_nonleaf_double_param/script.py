import torch

torch.manual_seed(0)
points = torch.randn(30, 3)
target = points @ torch.linalg.qr(torch.randn(3, 3))[0] + 0.3


def make_variables(dtype):
    warp = torch.eye(3, requires_grad=True).to(dtype)
    shift = torch.zeros(3, dtype=dtype, requires_grad=True)
    return warp, shift


warp, shift = make_variables(torch.float64)
optimizer = torch.optim.LBFGS([warp, shift], max_iter=5)


def closure():
    optimizer.zero_grad()
    loss = (points.double() @ warp + shift - target).pow(2).sum()
    loss.backward()
    return loss


for _ in range(3):
    optimizer.step(closure)
