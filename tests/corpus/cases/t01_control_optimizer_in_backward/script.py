import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
opts = {p: torch.optim.SGD([p], lr=0.05) for p in net.parameters()}


def step_now(p):
    opts[p].step()
    opts[p].zero_grad()


def clip_now(p):
    p.grad.clamp_(-0.01, 0.01)


for p in net.parameters():
    p.register_post_accumulate_grad_hook(clip_now)
    p.register_post_accumulate_grad_hook(step_now)
for _ in range(4):
    x = torch.randn(16, 6)
    (net(x).squeeze(1) - x[:, 0]).pow(2).mean().backward()
