import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class VQ(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.book = nn.Embedding(n, d)
        self.book.weight.data.uniform_(-1 / n, 1 / n)

    def forward(self, z):
        idx = torch.cdist(z, self.book.weight).argmin(1)
        e = self.book(idx)
        loss = F.mse_loss(e, z.detach()) + 0.25 * F.mse_loss(z, e.detach())
        return z + (e - z).detach(), loss, torch.bincount(idx, minlength=len(self.book.weight))


enc, vq, dec = nn.Linear(10, 4), VQ(8, 4), nn.Linear(4, 10)
opt = torch.optim.Adam([*enc.parameters(), *vq.parameters(), *dec.parameters()], lr=1e-3)
for _ in range(3):
    x = torch.randn(32, 10)
    z, commit, used = vq(enc(x))
    loss = F.mse_loss(dec(z), x) + commit
    opt.zero_grad(); loss.backward(); opt.step()
