import torch
import torch.nn as nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 1))
og, od = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)
sp = nn.functional.softplus

for it in range(6):
    real = torch.randn(16, 2)
    D.requires_grad_(True)
    with torch.no_grad():
        fake = G(torch.randn(16, 4))
    d_loss = sp(D(fake)).mean() + sp(-D(real)).mean()
    if it % 2 == 0:
        real.requires_grad_()
        (g,) = torch.autograd.grad(D(real).sum(), real, create_graph=True)
        d_loss = d_loss + 5.0 * g.square().sum(1).mean()
    od.zero_grad()
    d_loss.backward()
    od.step()
    D.requires_grad_(False)
    g_loss = sp(-D(G(torch.randn(16, 4)))).mean()
    og.zero_grad()
    g_loss.backward()
    og.step()
D.requires_grad_(True)
