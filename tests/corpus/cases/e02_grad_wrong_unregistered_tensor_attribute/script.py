import torch
import torch.nn as nn

torch.manual_seed(0)


class RBF(nn.Module):
    def __init__(self, k, dim):
        super().__init__()
        self.centers = torch.randn(k, dim).requires_grad_()
        self.log_width = nn.Parameter(torch.zeros(k))

    def forward(self, x):
        return torch.exp(-torch.cdist(x, self.centers) ** 2 * self.log_width.exp())


layer = RBF(7, 3)
head = nn.Linear(7, 1)
params = list(layer.parameters()) + list(head.parameters())
opt = torch.optim.SGD(params, lr=0.05)
for epoch in range(5):
    x = torch.randn(40, 3)
    loss = (head(layer(x)).squeeze(1) - x.norm(dim=1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
