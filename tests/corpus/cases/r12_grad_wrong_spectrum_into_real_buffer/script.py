import torch

torch.manual_seed(0)
taps = torch.nn.Parameter(torch.randn(9) * 0.2)
opt = torch.optim.Adam([taps], lr=1e-2)
reference = torch.randn(4, 64)
target = torch.fft.rfft(reference * torch.hann_window(64))
for it in range(5):
    filtered = torch.nn.functional.conv1d(reference[:, None], taps[None, None], padding=4)[:, 0]
    spectrum = torch.zeros(4, 33)
    spectrum[:] = torch.fft.rfft(filtered)
    loss = (spectrum - target).abs().pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
