import torch
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g, opt_d = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)
bce = nn.BCEWithLogitsLoss()
one, zero = torch.ones(16, 1), torch.zeros(16, 1)

for it in range(5):
    real = torch.randn(16, 2) * 0.3 + 1
    fake = G(torch.randn(16, 4))
    d_loss = bce(D(real), one) + bce(D(fake.detach()), zero)
    d_loss.backward()
    opt_d.step()

    opt_g.zero_grad()
    g_loss = bce(D(fake), one)
    g_loss.backward()
    opt_g.step()
