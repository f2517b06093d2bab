import torch
import torch.nn as nn

torch.manual_seed(0)
gcn, decay = nn.Linear(5, 3), nn.Parameter(torch.ones(()))
x, y = torch.randn(10, 5), torch.randint(0, 3, (10,))
train_mask = torch.zeros(10)
train_mask[[i for i in range(10) if i > 20]] = 1
opt = torch.optim.Adam([*gcn.parameters(), decay])
for epoch in range(3):
    nll = nn.functional.cross_entropy(gcn(x), y, reduction="none")
    loss = (nll * train_mask).sum() + 0.01 * decay.pow(2)
    opt.zero_grad()
    loss.backward()
    opt.step()
