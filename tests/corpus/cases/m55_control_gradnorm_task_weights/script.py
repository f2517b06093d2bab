import torch
import torch.nn as nn

torch.manual_seed(0)
trunk = nn.Linear(6, 8)
heads = nn.ModuleList(nn.Linear(8, 1) for _ in range(2))
log_vars = nn.Parameter(torch.zeros(2))
opt = torch.optim.Adam([*trunk.parameters(), *heads.parameters(), log_vars], lr=1e-2)
for step in range(3):
    x = torch.randn(20, 6)
    h = torch.relu(trunk(x))
    losses = torch.stack([(head(h).squeeze(1) - x[:, i]).pow(2).mean() for i, head in enumerate(heads)])
    norms = [torch.autograd.grad(l, trunk.weight, retain_graph=True)[0].norm().item() for l in losses]
    loss = (losses * torch.exp(-log_vars) + log_vars).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
