import torch
import torch.nn as nn

torch.manual_seed(0)


class Glimpse(nn.Module):
    def __init__(self):
        super().__init__()
        self.loc = nn.Linear(4, 1)
        self.cls = nn.Linear(3, 2)

    def forward(self, ctx, signal):
        start = (torch.sigmoid(self.loc(ctx)) * 12).squeeze(1)
        rows = [s[int(p): int(p) + 3] for s, p in zip(signal, start)]
        return self.cls(torch.stack(rows))


net = Glimpse()
opt = torch.optim.Adam(net.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(net(torch.randn(6, 4), torch.randn(6, 16)), torch.randint(0, 2, (6,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
