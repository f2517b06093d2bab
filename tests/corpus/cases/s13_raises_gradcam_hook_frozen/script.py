import torch
import torch.nn as nn


def load():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))
    net.eval()
    for p in net.parameters():
        p.requires_grad = False
    return net


net = load()
image = torch.rand(1, 3, 12, 12)
gradients = []
maps = net[:4](image)
maps.register_hook(lambda g: gradients.append(g))
score = net[4:](maps).max()
score.backward()
weights = gradients[0].mean((2, 3), keepdim=True)
cam = torch.relu((weights * maps).sum(1))
print(cam.shape)
