import torch
import torch.nn as nn

torch.manual_seed(0)
rank = nn.Linear(5, 1)
opt = torch.optim.Adam(rank.parameters(), lr=1e-2)
for step in range(3):
    x, rel = torch.randn(12, 5), torch.rand(12)
    s = rank(x).squeeze(1)
    diff = s[:, None] - s[None, :]
    want = (rel[:, None] > rel[None, :]).float()
    loss = (want * nn.functional.softplus(-diff)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
