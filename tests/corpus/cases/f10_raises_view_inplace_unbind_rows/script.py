import torch
import torch.nn as nn

torch.manual_seed(0)
lin = nn.Linear(3, 6)
opt = torch.optim.SGD(lin.parameters(), lr=0.1)
for step in range(2):
    boxes = lin(torch.randn(10, 3)).view(10, 3, 2)
    lo, size, score = boxes.unbind(1)
    size.exp_()
    loss = (lo + size).pow(2).mean() + score.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
