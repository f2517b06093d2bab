import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


image = torch.rand(1, 3, 16, 16)
features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, 8, 3, padding=1)).requires_grad_(False)
style = torch.rand(1, 3, 16, 16)


def gram(f):
    flat = f.flatten(2)
    return flat @ flat.transpose(1, 2) / flat.shape[-1]


with torch.no_grad():
    content_target = features(image)
    style_target = gram(features(style))

canvas = torch.rand(1, 3, 16, 16, requires_grad=True)
gain = torch.ones(3, requires_grad=True)
optimizer = torch.optim.LBFGS([canvas, gain], lr=0.5, max_iter=3)


def closure():
    optimizer.zero_grad()
    picture = canvas * gain.view(1, 3, 1, 1)
    found = features(picture)
    content = F.mse_loss(found, content_target)
    texture = (gram(found) - style_target).square().mean()
    smooth = (picture[..., 1:] - picture[..., :-1]).abs().mean()
    loss = content + 10.0 * texture + 0.1 * smooth
    loss.backward()
    return loss


for step in range(4):
    print(step, optimizer.step(closure).item())
