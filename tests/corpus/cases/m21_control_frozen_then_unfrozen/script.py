import torch
import torch.nn as nn

torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(6, 12), nn.ReLU()), nn.Linear(12, 2)
for p in body.parameters():
    p.requires_grad = False
opt = torch.optim.Adam(head.parameters(), lr=1e-2)
for epoch in range(6):
    if epoch == 3:
        for p in body.parameters():
            p.requires_grad = True
        opt.add_param_group({"params": body.parameters(), "lr": 1e-4})
    x, y = torch.randn(16, 6), torch.randint(0, 2, (16,))
    loss = nn.functional.cross_entropy(head(body(x)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
