"""A variational autoencoder: an encoder, a sample, a decoder, and a loss of two terms."""

import torch
from torch import Tensor, nn

torch.manual_seed(0)


class VAE(nn.Module):
    """Two layers in the encoder and in the decoder."""

    def __init__(self, size: int = 64, hidden: int = 32, code: int = 4) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.mean = nn.Linear(hidden, code)
        self.log_variance = nn.Linear(hidden, code)
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, size), nn.Sigmoid())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = self.encoder(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        sample = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        return self.decoder(sample), mean, log_variance


model = VAE()
images = torch.rand(8, 64)

decoded, mean, log_variance = model(images)
reconstruction = nn.functional.binary_cross_entropy(decoded, images)
divergence = -0.5 * torch.mean(1 + log_variance - mean**2 - log_variance.exp())
loss = reconstruction + divergence
loss.backward()
