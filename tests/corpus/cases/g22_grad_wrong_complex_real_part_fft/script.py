import torch

torch.manual_seed(0)
filt = torch.randn(16, dtype=torch.cfloat, requires_grad=True)
opt = torch.optim.SGD([filt], lr=0.01)
for step in range(3):
    x = torch.randn(8, 16)
    y = torch.fft.fft(x) * filt
    energy = y.to(torch.float32).pow(2)
    loss = (energy.mean(0) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
