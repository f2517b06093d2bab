import torch
import torch.nn as nn

torch.manual_seed(0)
enc = nn.Linear(4, 2)
opt = torch.optim.SGD(enc.parameters(), lr=1e-3)
x = torch.randn(16, 4) * 150
for step in range(2):
    mu, logvar = enc(x).chunk(2, dim=1)
    var = logvar.exp()
    kl = 0.5 * (mu.pow(2) + var - 1 - logvar)
    nll = (x[:, :1] - mu).pow(2) / (var + 1e-8) + logvar
    loss = (kl + nll).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
