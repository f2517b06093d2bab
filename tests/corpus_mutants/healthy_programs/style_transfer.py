import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

features = nn.Sequential(nn.Conv2d(1, 6, 3), nn.Tanh(), nn.Conv2d(6, 6, 3)).requires_grad_(False)
content, style = torch.rand(1, 1, 12, 12), torch.rand(1, 1, 12, 12)
image = content.clone().requires_grad_()
opt = torch.optim.LBFGS([image], max_iter=4)


def gram(f):
    f = f.flatten(2)
    return f @ f.transpose(1, 2) / f.shape[-1]


with torch.no_grad():
    content_target = features(content)
    style_target = gram(features(style))


def closure():
    opt.zero_grad()
    f = features(image)
    content_loss = F.mse_loss(f, content_target)
    style_loss = F.mse_loss(gram(f), style_target)
    loss = content_loss + 10 * style_loss
    loss.backward()
    return loss


for step in range(3):
    opt.step(closure)
