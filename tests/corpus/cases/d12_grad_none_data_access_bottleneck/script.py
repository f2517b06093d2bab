import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(20, 16)
        self.to_mu, self.to_logvar = nn.Linear(16, 4), nn.Linear(16, 4)
        self.dec = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 20))

    def sample(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        noise = mu.data.new(mu.size()).normal_()
        return noise.mul(std).add_(mu).data

    def forward(self, x):
        h = torch.relu(self.enc(x))
        mu, logvar = self.to_mu(h), self.to_logvar(h)
        return self.dec(self.sample(mu, logvar)), mu, logvar


vae = VAE()
opt = torch.optim.Adam(vae.parameters())
for _ in range(3):
    x = torch.rand(32, 20)
    recon, mu, logvar = vae(x)
    loss = F.binary_cross_entropy_with_logits(recon, x)
    opt.zero_grad()
    loss.backward()
    opt.step()
