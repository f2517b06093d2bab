import torch
from torch import nn

torch.manual_seed(0)
enc, dec = nn.Linear(12, 8), nn.Linear(4, 12)
prior = nn.Embedding(5, 4)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters(), *prior.parameters()], lr=1e-3)


def kl(mu, logvar, prior_mu):
    return 0.5 * (logvar.exp() + (mu - prior_mu) ** 2 - 1 - logvar).sum(-1).mean()


for _ in range(3):
    x, label = torch.randn(16, 12), torch.randint(0, 5, (16, 1))
    mu, logvar = enc(x).chunk(2, -1)
    z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
    loss = (dec(z) - x).pow(2).sum(-1).mean() + kl(mu, logvar, prior(label))
    opt.zero_grad()
    loss.backward()
    opt.step()
