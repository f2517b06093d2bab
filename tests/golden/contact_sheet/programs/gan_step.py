"""One step of the generator of a GAN: the gradient goes through the discriminator into the generator."""

import torch
from torch import nn

torch.manual_seed(0)

generator = nn.Sequential(
    nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh()
)
discriminator = nn.Sequential(
    nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)
)
real = torch.randn(4, 16)
noise = torch.randn(4, 8)

fake = generator(noise)
for_fake = discriminator(fake.detach())
for_real = discriminator(real)
discriminator_loss = nn.functional.softplus(for_fake).mean() + nn.functional.softplus(-for_real).mean()
generator_loss = nn.functional.softplus(-discriminator(fake)).mean()
(discriminator_loss + generator_loss).backward()
