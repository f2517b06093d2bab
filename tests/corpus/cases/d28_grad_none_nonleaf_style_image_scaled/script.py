import torch
import torch.nn as nn

torch.manual_seed(0)
vgg = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)).requires_grad_(False)
content = torch.rand(1, 3, 12, 12)
target = vgg(content)
canvas = torch.rand(1, 3, 12, 12, requires_grad=True) * 0.1 + 0.45
lr = 0.5
for step in range(3):
    loss = (vgg(canvas) - target).pow(2).mean()
    loss.backward(retain_graph=True)
    with torch.no_grad():
        if canvas.grad is not None:
            canvas = (canvas - lr * canvas.grad).requires_grad_()
