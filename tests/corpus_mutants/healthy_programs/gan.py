import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(32, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-3)
opt_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3)
bce = nn.BCEWithLogitsLoss()
for step in range(6):
    real = torch.randn(32, 2) * 0.5 + 1
    noise = torch.randn(32, 8)
    fake = generator(noise)

    opt_d.zero_grad()
    real_loss = bce(discriminator(real), torch.ones(32, 1))
    fake_loss = bce(discriminator(fake.detach()), torch.zeros(32, 1))
    d_loss = real_loss + fake_loss
    d_loss.backward()
    opt_d.step()

    opt_g.zero_grad()
    g_loss = bce(discriminator(fake), torch.ones(32, 1))
    g_loss.backward()
    opt_g.step()
