import torch
import torch.nn as nn

torch.manual_seed(0)
vgg = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3))
for p in vgg.parameters():
    p.requires_grad_(False)


def gram(f):
    f = f.flatten(2)
    return f @ f.transpose(1, 2) / f.shape[-1]


content, style = torch.rand(1, 3, 12, 12), torch.rand(1, 3, 12, 12)
canvas = content.clone()
goal_c, goal_s = vgg(content), gram(vgg(style))
opt = torch.optim.Adam([canvas], lr=0.02)
for step in range(4):
    f = vgg(canvas)
    loss = (f - goal_c).square().mean() + 10 * (gram(f) - goal_s).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
