import torch
import torch.nn as nn

torch.manual_seed(0)
enc, cls, rec = nn.Linear(6, 8), nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3)), nn.Linear(8, 6)
opt = torch.optim.Adam([*enc.parameters(), *cls.parameters(), *rec.parameters()])


def losses(x, y):
    z = enc(x)
    out = cls(z)
    yield nn.functional.cross_entropy(out, y)
    yield (rec(z) - x).pow(2).mean() + 0.01 * out.pow(2).mean()


for step in range(2):
    x, y = torch.randn(10, 6), torch.randint(0, 3, (10,))
    for loss in losses(x, y):
        opt.zero_grad()
        loss.backward(retain_graph=True)
        opt.step()
