import torch
import torch.nn as nn

torch.manual_seed(0)
body, heads = nn.Linear(5, 8), nn.ModuleList(nn.Linear(8, 2) for _ in range(3))
opt = torch.optim.SGD([*body.parameters(), *heads.parameters()], lr=0.1)
for step in range(2):
    x = torch.randn(7, 5)
    feats = torch.tanh(body(x))
    opt.zero_grad()
    for head in heads:
        loss = nn.functional.cross_entropy(head(feats), torch.randint(0, 2, (7,)))
        loss.backward()
    opt.step()
