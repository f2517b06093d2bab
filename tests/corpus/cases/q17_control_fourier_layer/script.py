import torch
import torch.nn as nn


class SpectralNet(nn.Module):
    def __init__(self, width=6, modes=5):
        super().__init__()
        self.modes = modes
        self.lift = nn.Linear(1, width)
        self.weight = nn.Parameter(torch.randn(width, width, modes, dtype=torch.cfloat) / width)
        self.skip = nn.Conv1d(width, width, 1)
        self.drop = nn.Linear(width, 1)

    def forward(self, u):
        h = self.lift(u.unsqueeze(-1)).transpose(1, 2)
        spectrum = torch.fft.rfft(h)
        out = torch.zeros_like(spectrum)
        out[..., :self.modes] = torch.einsum("bim,iom->bom", spectrum[..., :self.modes], self.weight)
        h = nn.functional.gelu(torch.fft.irfft(out, n=u.shape[-1]) + self.skip(h))
        return self.drop(h.transpose(1, 2)).squeeze(-1)


torch.manual_seed(0)
net = SpectralNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(4):
    u = torch.randn(8, 32).cumsum(1)
    loss = (net(u) - u.roll(3, 1)).norm() / u.norm()
    opt.zero_grad()
    loss.backward()
    opt.step()
