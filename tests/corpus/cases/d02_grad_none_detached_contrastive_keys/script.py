import torch
import torch.nn as nn
import torch.nn.functional as F
from dataclasses import dataclass

torch.manual_seed(3)


@dataclass
class Output:
    features: torch.Tensor
    projected: torch.Tensor


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16))
        self.proj = nn.Linear(16, 8)

    def forward(self, x):
        f = self.body(x)
        return Output(features=f, projected=F.normalize(self.proj(f), dim=-1))


def freeze_output(out):
    return {k: v.detach() for k, v in vars(out).items()}


teacher, student = Tower(), Tower()
opt = torch.optim.AdamW(student.parameters(), lr=1e-3)
for it in range(4):
    x = torch.randn(24, 10)
    t = freeze_output(teacher(x))
    s = freeze_output(student(x + 0.1 * torch.randn_like(x)))
    logits = s["projected"] @ t["projected"].T / 0.1
    distill = F.cross_entropy(logits, torch.arange(24))
    reg = sum((p ** 2).sum() for p in student.body.parameters())
    loss = distill + 1e-4 * reg
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
