import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class MaskedConv(nn.Conv2d):
    def __init__(self, kind, *args, **kwargs):
        super().__init__(*args, **kwargs)
        mask = torch.ones_like(self.weight)
        k = self.weight.shape[-1]
        mask[:, :, k // 2, k // 2 + (kind == "B"):] = 0
        mask[:, :, k // 2 + 1:] = 0
        self.register_buffer("mask", mask)

    def forward(self, x):
        return F.conv2d(x, self.weight * self.mask, self.bias, padding=1)


net = nn.Sequential(MaskedConv("A", 1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), MaskedConv("B", 8, 1, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(4):
    net.train()
    images = (torch.rand(8, 1, 8, 8) > 0.5).float()
    logits = net(images)
    loss = F.binary_cross_entropy_with_logits(logits, images)
    opt.zero_grad()
    loss.backward()
    opt.step()
