import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Conv2d(3, 4, 3).requires_grad_(False)
ref = torch.rand(1, 3, 8, 8)
with torch.no_grad():
    target = net(ref)
img = torch.rand(1, 3, 8, 8).requires_grad_(True)
opt = torch.optim.LBFGS([img], max_iter=4)


def closure():
    with torch.no_grad():
        img.clamp_(0, 1)
    opt.zero_grad()
    loss = (net(img) - target).pow(2).sum()
    loss.backward()
    return loss


for _ in range(2):
    opt.step(closure)
with torch.no_grad():
    img.clamp_(0, 1)
