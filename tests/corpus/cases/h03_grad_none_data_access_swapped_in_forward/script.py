import torch
import torch.nn as nn

torch.manual_seed(0)


class Mixture(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(k))
        self.experts = nn.ModuleList(nn.Linear(4, 1) for _ in range(k))

    def weights(self):
        w = torch.empty(len(self.logits))
        w.copy_(torch.softmax(self.logits.data, 0))
        return w

    def forward(self, x):
        return sum(w * e(x) for w, e in zip(self.weights(), self.experts))


mix = Mixture(3)
opt = torch.optim.Adam(mix.parameters(), lr=1e-2)
for _ in range(3):
    x = torch.randn(20, 4)
    loss = (mix(x) - x.sum(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
