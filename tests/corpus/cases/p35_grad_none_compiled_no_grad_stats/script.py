import torch
import torch.nn as nn


class AdaIN(nn.Module):
    def __init__(self, channels=6, style=4):
        super().__init__()
        self.style = nn.Linear(style, 2 * channels)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    @torch.no_grad()
    def affine(self, s):
        scale, shift = self.style(s).chunk(2, dim=1)
        return scale[:, :, None, None], shift[:, :, None, None]

    def forward(self, x, s):
        scale, shift = self.affine(s)
        x = self.conv(x)
        x = (x - x.mean((2, 3), keepdim=True)) / (x.var((2, 3), keepdim=True) + 1e-5).sqrt()
        return x * (1 + scale) + shift


torch.manual_seed(0)
model = AdaIN()
fast = torch.compile(model, backend="eager")
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
x, s, y = torch.randn(4, 6, 8, 8), torch.randn(4, 4), torch.randn(4, 6, 8, 8)
for _ in range(3):
    loss = (fast(x, s) - y).abs().mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
