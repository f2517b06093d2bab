import torch
import torch.nn as nn

torch.manual_seed(0)


class Attn(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x, drop):
        w = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / 3.5, -1)
        w.masked_fill_(drop, 0.0)
        return w @ self.v(x)


attn = Attn()
opt = torch.optim.AdamW(attn.parameters())
for step in range(2):
    x = torch.randn(4, 6, 12)
    loss = attn(x, torch.rand(4, 6, 6) < 0.1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
