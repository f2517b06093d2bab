import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Quantizer(nn.Module):
    def __init__(self, codes=12, dim=4):
        super().__init__()
        self.codebook = nn.Embedding(codes, dim)

    def forward(self, z):
        distance = (z.unsqueeze(1) - self.codebook.weight.unsqueeze(0)).square().sum(-1)
        index = distance.argmin(1)
        quantized = self.codebook(index)
        codebook_loss = F.mse_loss(quantized, z.detach())
        commitment = F.mse_loss(z, quantized.detach())
        straight = z + (quantized - z).detach()
        return straight, codebook_loss + 0.25 * commitment


encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
decoder = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
quantizer = Quantizer()
params = list(encoder.parameters()) + list(decoder.parameters()) + list(quantizer.parameters())
opt = torch.optim.Adam(params, lr=3e-3)
for step in range(6):
    x = torch.randn(32, 8)
    z = encoder(x)
    z_q, vq_loss = quantizer(z)
    recon = decoder(z_q)
    loss = F.mse_loss(recon, x) + vq_loss
    opt.zero_grad()
    loss.backward()
    opt.step()
