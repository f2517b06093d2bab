import torch
import torch.nn as nn


class TiedAutoencoder(nn.Module):
    """The decoder shares the encoder's weights."""

    def __init__(self, n, k):
        super().__init__()
        self.encoder = nn.Linear(n, k)
        self.decoder = nn.Linear(k, n)
        self.decoder.weight = nn.Parameter(self.encoder.weight.t().clone())

    def forward(self, x):
        return self.decoder(torch.sigmoid(self.encoder(x)))


torch.manual_seed(0)
ae = TiedAutoencoder(20, 5)
opt = torch.optim.Adam(ae.parameters(), lr=1e-2)
x = torch.rand(64, 20)
for epoch in range(10):
    loss = nn.functional.mse_loss(ae(x), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
