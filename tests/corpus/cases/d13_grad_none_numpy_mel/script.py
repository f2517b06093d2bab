import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(0)


class Synth(nn.Module):
    def __init__(self, n=64):
        super().__init__()
        self.filters = nn.Parameter(torch.randn(n) * 0.1)
        self.volume = nn.Parameter(torch.tensor(0.5))

    def forward(self, noise):
        return noise * self.filters, self.volume


def log_energy(wave):
    frames = wave.detach().numpy().reshape(len(wave), 8, 8)
    return torch.from_numpy(np.log1p((frames ** 2).sum(-1)))


synth = Synth()
opt = torch.optim.Adam(synth.parameters(), lr=1e-2)
target = torch.rand(4, 8)
for step in range(3):
    wave, volume = synth(torch.randn(4, 64))
    loss = ((volume * log_energy(wave)) - target).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
