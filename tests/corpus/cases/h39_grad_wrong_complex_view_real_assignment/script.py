import torch

torch.manual_seed(0)
h = torch.randn(8, dtype=torch.cfloat, requires_grad=True)
opt = torch.optim.SGD([h], lr=0.01)
for _ in range(3):
    x = torch.randn(4, 8)
    y = torch.fft.ifft(torch.fft.fft(x) * h)
    mag = y.type(torch.float32)
    loss = (mag.square() - 1).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
