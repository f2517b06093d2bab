import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
norms = {}


def track(name):
    def hook(grad):
        norms[name] = grad.norm()
        grad /= grad.abs().max()
        norms[name + ".shape"] = grad.std()
    return hook


for name, p in net.named_parameters():
    p.register_hook(track(name))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(10, 6)
    loss = (net(x) - x.mean(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print({k: v.item() for k, v in norms.items()})
