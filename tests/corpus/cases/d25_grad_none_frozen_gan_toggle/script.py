import torch
import torch.nn as nn

torch.manual_seed(0)
gen = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
disc = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(disc.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()


def set_requires_grad(net, flag):
    for p in net.parameters():
        p.requires_grad = flag


for step in range(4):
    real = torch.randn(16, 2) + 2
    fake = gen(torch.randn(16, 4))
    set_requires_grad(disc, False)
    loss_g = bce(disc(fake), torch.ones(16, 1))
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    fake = gen(torch.randn(16, 4))
    loss_d = bce(disc(real), torch.ones(16, 1)) + bce(disc(fake), torch.zeros(16, 1))
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
