import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = nn.Conv2d(1, 8, 3, padding=1)
        self.down2 = nn.Conv2d(8, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out = nn.Conv2d(16, 1, 1)

    def forward(self, x):
        d1 = F.relu(self.down1(x))
        d2 = F.relu(self.norm(self.down2(F.max_pool2d(d1, 2))))
        u = self.up(d2)
        merged = torch.cat([u, d1], dim=1)
        return self.out(merged)


def dice_loss(logits, mask, eps=1.0):
    probs = torch.sigmoid(logits)
    inter = (probs * mask).sum()
    return 1 - (2 * inter + eps) / (probs.sum() + mask.sum() + eps)


model = UNet()
model.train()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(4):
    images = torch.randn(4, 1, 8, 8)
    masks = (images > 0).float()
    logits = model(images)
    bce = F.binary_cross_entropy_with_logits(logits, masks)
    dice = dice_loss(logits, masks)
    loss = bce + dice
    opt.zero_grad()
    loss.backward()
    opt.step()
