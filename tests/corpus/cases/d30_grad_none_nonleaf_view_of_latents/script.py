import torch
import torch.nn as nn

torch.manual_seed(0)
decoder = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 20))
shapes = torch.rand(6, 20)
codes = torch.zeros(30, requires_grad=True).view(6, 5)
opt = torch.optim.Adam(decoder.parameters(), lr=1e-3)
for epoch in range(3):
    recon = decoder(codes)
    loss = (recon - shapes).pow(2).mean() + 1e-3 * (codes + 0.1).pow(2).mean()
    opt.zero_grad()
    loss.backward(retain_graph=True)
    opt.step()
    if codes.grad is not None:
        codes.data -= 0.1 * codes.grad
