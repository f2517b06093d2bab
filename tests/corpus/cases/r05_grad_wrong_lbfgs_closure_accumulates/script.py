import torch
import torch.nn.functional as F

torch.manual_seed(0)
conv = torch.nn.Conv2d(3, 6, 3, padding=1).requires_grad_(False)


def gram(f):
    f = f.flatten(1)
    return f @ f.T / f.numel()


style = gram(F.relu(conv(torch.rand(3, 16, 16))))
canvas = torch.rand(3, 16, 16, requires_grad=True)
optimizer = torch.optim.LBFGS([canvas], max_iter=6)


def closure():
    loss = 1e5 * F.mse_loss(gram(F.relu(conv(canvas))), style)
    loss.backward()
    return loss


for _ in range(2):
    optimizer.step(closure)
