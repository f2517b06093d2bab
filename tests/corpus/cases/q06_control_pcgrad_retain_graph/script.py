import torch
import torch.nn as nn

torch.manual_seed(0)
body = nn.Linear(6, 16)
heads = nn.ModuleList([nn.Linear(16, 1), nn.Linear(16, 1)])
shared = list(body.parameters())
opt = torch.optim.Adam([*shared, *heads.parameters()], lr=1e-3)

for it in range(4):
    x = torch.randn(32, 6)
    h = torch.tanh(body(x))
    losses = [(heads[0](h).squeeze() - x.sum(1)).square().mean(), (heads[1](h).squeeze() + x[:, 0]).square().mean()]
    opt.zero_grad()
    grads = [torch.cat([g.flatten() for g in torch.autograd.grad(l, shared, retain_graph=True)]) for l in losses]
    dot = grads[0] @ grads[1]
    if dot < 0:
        grads[0] = grads[0] - dot / grads[1].square().sum() * grads[1]
    sum(losses).backward()
    merged, at = grads[0] + grads[1], 0
    for p in shared:
        p.grad.copy_(merged[at:at + p.numel()].view_as(p))
        at += p.numel()
    opt.step()
