import torch
import torch.nn as nn

torch.manual_seed(0)


class FakeQuant(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(0.1))

    def forward(self, x):
        self.scale.copy_(x.detach().abs().max() / 127)
        return torch.fake_quantize_per_tensor_affine(x, float(self.scale), 0, -128, 127)


net = nn.Sequential(nn.Linear(6, 8), FakeQuant(), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(torch.randn(10, 6)), torch.randint(0, 2, (10,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
