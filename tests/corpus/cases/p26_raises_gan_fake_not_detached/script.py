import torch
import torch.nn as nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
bce = nn.BCEWithLogitsLoss()
opt_g = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)

for real in torch.randn(3, 8, 2):
    fake = G(torch.randn(8, 4))
    # discriminator
    opt_d.zero_grad()
    loss_real = bce(D(real), ones)
    loss_fake = bce(D(fake), zeros)
    (loss_real + loss_fake).backward()
    opt_d.step()
    # generator
    opt_g.zero_grad()
    loss_g = bce(D(fake), ones)
    loss_g.backward()
    opt_g.step()
