import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class LoRALinear(nn.Module):
    def __init__(self, base, rank=4, alpha=8.0):
        super().__init__()
        self.base = base
        self.base.requires_grad_(False)
        self.A = nn.Parameter(torch.randn(rank, base.in_features) * 0.1)
        self.B = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale = alpha / rank

    def forward(self, x):
        update = x @ self.A.t() @ self.B.t()
        return self.base(x) + self.scale * update


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = LoRALinear(nn.Linear(8, 16))
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        h = F.gelu(self.norm(self.body(x)))
        return self.head(h)


model = Model()
trainable = [p for p in model.parameters() if p.requires_grad]
opt = torch.optim.AdamW(trainable, lr=1e-2)
x, y = torch.randn(48, 8), torch.randint(0, 3, (48,))
for epoch in range(6):
    logits = model(x)
    loss = F.cross_entropy(logits, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
