import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
critic = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
real, noise = torch.randn(16, 2), torch.randn(16, 2)

fake = generator(noise)
critic_loss = critic(fake.detach()).mean() - critic(real).mean()
critic_loss.backward()

generator_loss = -critic(fake).mean()
generator_loss.backward()
