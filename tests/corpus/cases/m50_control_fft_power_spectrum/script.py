import torch
import torch.nn as nn

torch.manual_seed(0)
filt = nn.Conv1d(1, 1, 5, padding=2)
opt = torch.optim.Adam(filt.parameters())
for step in range(3):
    x = torch.randn(4, 1, 32)
    s = torch.fft.rfft(filt(x))
    back = torch.fft.irfft(s, n=32)
    loss = (torch.view_as_real(s).pow(2).sum(-1).add(1e-6).log()).mean() + (torch.fft.ifft(torch.fft.fft(back)).real - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
