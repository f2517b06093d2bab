import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).eval()
image = torch.rand(1, 1, 8, 8)


def saliency(model, image):
    score = model(image).max()
    score.backward()
    return image.grad.abs().amax(1)


print(saliency(model, image).shape)
