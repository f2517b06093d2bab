import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
router = nn.Linear(6, 3)
experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
opt = torch.optim.Adam([*router.parameters(), *experts.parameters()])
for step in range(4):
    x = torch.randn(40, 6)
    choice = F.gumbel_softmax(router(x), tau=1.0, hard=True)
    y = sum(choice[:, i:i + 1] * e(x) for i, e in enumerate(experts))
    loss = (y - x.flip(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
