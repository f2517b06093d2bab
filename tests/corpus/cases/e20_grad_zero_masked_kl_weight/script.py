import torch
import torch.nn as nn


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(12, 8)
        self.mu, self.logvar = nn.Linear(8, 3), nn.Linear(8, 3)
        self.dec = nn.Linear(3, 12)

    def forward(self, x):
        h = self.enc(x).relu()
        mu, logvar = self.mu(h), self.logvar(h)
        return self.dec(mu), mu, logvar


torch.manual_seed(0)
config = {"beta": 0.0, "epochs": 3}
vae = VAE()
opt = torch.optim.Adam(vae.parameters(), 1e-3)
for epoch in range(config["epochs"]):
    x = torch.rand(16, 12)
    recon, mu, logvar = vae(x)
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(1).mean()
    loss = (recon - x).pow(2).sum(1).mean() + config["beta"] * kl
    opt.zero_grad()
    loss.backward()
    opt.step()
