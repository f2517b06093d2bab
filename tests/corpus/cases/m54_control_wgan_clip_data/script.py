import torch
import torch.nn as nn

torch.manual_seed(0)
G, C = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
og, oc = torch.optim.RMSprop(G.parameters(), 5e-5), torch.optim.RMSprop(C.parameters(), 5e-5)
for it in range(6):
    for p in C.parameters():
        p.data.clamp_(-0.1, 0.1)
    fake = G(torch.randn(16, 3)).data
    loss_c = C(fake).mean() - C(torch.randn(16, 2)).mean()
    C.zero_grad()
    loss_c.backward()
    oc.step()
    if it % 3 == 2:
        for p in C.parameters():
            p.requires_grad = False
        loss_g = -C(G(torch.randn(16, 3))).mean()
        og.zero_grad()
        loss_g.backward()
        og.step()
        for p in C.parameters():
            p.requires_grad = True
