import torch
import torch.nn as nn


class EmaQuantizer(nn.Module):
    def __init__(self, n=16, dim=6, decay=0.9):
        super().__init__()
        self.decay = decay
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("codebook", torch.randn(n, dim))

    def forward(self, x):
        z = self.proj(x)
        logits = z @ self.codebook.t()
        soft = logits.softmax(-1)
        index = logits.argmax(-1)
        if self.training:
            onehot = nn.functional.one_hot(index, len(self.codebook)).float()
            mean = onehot.t() @ z.detach() / onehot.sum(0).clamp(min=1).unsqueeze(1)
            self.codebook.mul_(self.decay).add_(mean, alpha=1 - self.decay)
        return soft @ self.codebook


torch.manual_seed(0)
vq = EmaQuantizer()
opt = torch.optim.Adam(vq.parameters(), lr=1e-3)
x = torch.randn(40, 6)
for step in range(3):
    loss = nn.functional.mse_loss(vq(x), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
