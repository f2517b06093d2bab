import torch
import torch.nn as nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.attn, self.ff = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        return x + self.ff(torch.relu(self.attn(x)))


def stack(cls, depth, *args):
    out = []
    for _ in range(depth):
        out.append(cls(*args))
    return out


class Encoder(nn.Module):
    def __init__(self, d=8, depth=2):
        super().__init__()
        self.inp = nn.Linear(4, d)
        self.layers = stack(Block, depth, d)

    def forward(self, x):
        x = self.inp(x)
        for layer in self.layers:
            x = layer(x)
        return x


enc = Encoder()
opt = torch.optim.Adam(enc.parameters())
for _ in range(3):
    loss = enc(torch.randn(6, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
