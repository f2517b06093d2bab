import torch
from torch import nn
import torch.nn.functional as F


def make_stage(width):
    return nn.Linear(width, width)


class Pipeline(nn.Module):
    def __init__(self, width=10, stages=3):
        super().__init__()
        self.enter = nn.Linear(4, width)
        self.pipeline = tuple(make_stage(width) for _ in range(stages))
        self.leave = nn.Linear(width, 4)

    def forward(self, x):
        h = self.enter(x)
        for stage in self.pipeline:
            h = h + F.silu(stage(h))
        return self.leave(h)


def train(net, steps):
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    for _ in range(steps):
        net.zero_grad(set_to_none=True)
        x = torch.randn(32, 4)
        loss = F.mse_loss(net(x), x.flip(1))
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        sched.step()


torch.manual_seed(3)
net = Pipeline()
train(net, 5)
