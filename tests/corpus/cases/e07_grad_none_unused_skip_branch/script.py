import torch
import torch.nn as nn

torch.manual_seed(0)


class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.mid = nn.Conv2d(4, 4, 3, padding=1)
        self.skip = nn.Conv2d(1, 4, 1)
        self.up = nn.ConvTranspose2d(4, 4, 4, stride=2, padding=1)
        self.last = nn.Conv2d(4, 1, 1)

    def forward(self, x):
        s = self.skip(x)
        h = torch.relu(self.mid(torch.relu(self.down(x))))
        h = torch.relu(self.up(h))
        return self.last(h)


unet = TinyUNet()
opt = torch.optim.Adam(unet.parameters(), lr=1e-3)
for step in range(3):
    clean = torch.rand(4, 1, 8, 8)
    loss = (unet(clean + 0.1 * torch.randn_like(clean)) - clean).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
