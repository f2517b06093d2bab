import torch
import torch.nn as nn

torch.manual_seed(0)
enc, dec = nn.Linear(8, 3), nn.Linear(3, 8)
opt_e = torch.optim.Adam(enc.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(dec.parameters(), lr=1e-3)


def train_step(x):
    loss = (dec(torch.tanh(enc(x))) - x).pow(2).mean()
    opt_e.zero_grad()
    loss.backward()
    opt_e.step()
    opt_d.step()
    return loss.item()


for step in range(5):
    train_step(torch.randn(12, 8))
