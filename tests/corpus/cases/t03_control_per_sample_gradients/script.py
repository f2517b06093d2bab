import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def one(params, x, y):
    return nn.functional.cross_entropy(functional_call(net, params, (x[None],)), y[None])


per_sample = vmap(grad(one), in_dims=(None, 0, 0))
for _ in range(3):
    x, y = torch.randn(12, 5), torch.randint(0, 2, (12,))
    params = {k: p.detach() for k, p in net.named_parameters()}
    gs = per_sample(params, x, y)
    norm = torch.stack([g.flatten(1).norm(dim=1) for g in gs.values()]).norm(dim=0)
    factor = (1.0 / (norm + 1e-6)).clamp(max=1.0)
    for k, p in net.named_parameters():
        p.grad = torch.einsum("n,n...->...", factor, gs[k]) / 12
    opt.step()
    opt.zero_grad()
