import math
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, d=16, heads=2):
        super().__init__()
        self.h, self.qkv, self.out = heads, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, keep):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(d // self.h)
        bias = torch.zeros(keep.shape).masked_fill(~keep, float("-inf"))
        scores = scores + bias[:, None, None, :]
        attn = scores.softmax(-1)
        attn = torch.nan_to_num(attn, nan=0.0)
        y = (attn @ v).transpose(1, 2).reshape(b, t, d)
        return x + self.out(y)


torch.manual_seed(0)
block = Block()
opt = torch.optim.AdamW(block.parameters(), lr=1e-3)
lengths = torch.tensor([5, 3, 0, 4])
keep = torch.arange(5)[None] < lengths[:, None]
for _ in range(3):
    x = torch.randn(4, 5, 16)
    y = block(x, keep)
    loss = ((y - x.roll(1, 1)) ** 2)[keep].mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
