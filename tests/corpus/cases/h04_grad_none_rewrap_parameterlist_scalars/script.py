import torch
import torch.nn as nn

torch.manual_seed(0)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(4))
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        gains = torch.tensor([torch.sigmoid(g) for g in self.raw])
        return self.lin(x) * gains


gate = Gate()
opt = torch.optim.Adam(gate.parameters())
for _ in range(2):
    loss = gate(torch.randn(6, 4)).pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
