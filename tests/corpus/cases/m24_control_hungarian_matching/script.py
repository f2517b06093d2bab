import itertools
import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 6))


@torch.no_grad()
def match(pred, ref):
    cost = torch.cdist(pred, ref).numpy()
    return [min(itertools.permutations(range(3)), key=lambda p: sum(c[i, j] for i, j in enumerate(p))) for c in cost]


opt = torch.optim.Adam(net.parameters())
for step in range(3):
    x, ref = torch.randn(7, 5), torch.randn(7, 3, 2)
    pred = net(x).view(7, 3, 2)
    order = torch.tensor(match(pred, ref))
    loss = (pred - ref.gather(1, order[..., None].expand(-1, -1, 2))).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
