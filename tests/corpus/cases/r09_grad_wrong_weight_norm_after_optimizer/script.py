import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 8, 5, padding=2)
        self.post = nn.Conv1d(8, 1, 5, padding=2)

    def apply_weight_norm(self):
        weight_norm(self.conv)
        weight_norm(self.post)

    def forward(self, x):
        return self.post(torch.tanh(self.conv(x)))


torch.manual_seed(0)
gen = Generator()
optimizer = torch.optim.AdamW(gen.parameters(), lr=2e-4)
gen.apply_weight_norm()
for _ in range(3):
    wave = torch.randn(4, 1, 32)
    loss = (gen(wave) - wave.roll(1, -1)).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
