import torch

torch.manual_seed(0)
phase = torch.randn(12, requires_grad=True)
target = torch.rand(4, 12)
opt = torch.optim.Adam([phase], lr=0.01)
for step in range(3):
    out = torch.zeros(4, 12)
    for i in range(4):
        spectrum = torch.fft.fft(target[i]) * torch.exp(1j * phase)
        out[i] = torch.fft.ifft(spectrum)
    loss = (out.abs() - target).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
