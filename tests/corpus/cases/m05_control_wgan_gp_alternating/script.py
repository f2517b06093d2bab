import torch
import torch.nn as nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
og, od = torch.optim.Adam(G.parameters(), 1e-4, (0.0, 0.9)), torch.optim.Adam(D.parameters(), 1e-4, (0.0, 0.9))
for it in range(6):
    real = torch.randn(32, 2)
    fake = G(torch.randn(32, 4)).detach()
    eps = torch.rand(32, 1)
    x = (eps * real + (1 - eps) * fake).requires_grad_(True)
    g = torch.autograd.grad(D(x), x, torch.ones(32, 1), create_graph=True, retain_graph=True)[0]
    d_loss = D(fake).mean() - D(real).mean() + 10 * ((g.norm(2, 1) - 1) ** 2).mean()
    od.zero_grad()
    d_loss.backward()
    od.step()
    if it % 3 == 2:
        g_loss = -D(G(torch.randn(32, 4))).mean()
        og.zero_grad()
        g_loss.backward()
        og.step()
