import torch
import torch.nn as nn

torch.manual_seed(0)


class TiedAE(nn.Module):
    def __init__(self, d=12, k=4):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(d, k), nn.Linear(k, d)
        self.decoder.weight = nn.Parameter(self.encoder.weight.transpose(0, 1))

    def forward(self, x):
        return nn.functional.linear(torch.tanh(self.encoder(x)), self.decoder.weight, self.decoder.bias)


ae = TiedAE()
opt = torch.optim.Adam(ae.parameters(), lr=1e-2)
for _ in range(4):
    x = torch.randn(30, 12)
    loss = (ae(x) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
