import torch
import torch.nn as nn

torch.manual_seed(0)
layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
head = nn.Linear(8, 2)
opt = torch.optim.SGD([*layers.parameters(), *head.parameters()], lr=0.05)
for step in range(8):
    x = torch.randn(16, 8)
    h = x
    for i, layer in enumerate(layers):
        if torch.rand(()) < 0.7 or i == 0:
            h = h + torch.relu(layer(h))
    loss = nn.functional.cross_entropy(head(h), (x[:, 0] > 0).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
