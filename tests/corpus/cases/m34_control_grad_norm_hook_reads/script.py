import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
norms = {}
for name, p in net.named_parameters():
    p.register_hook(lambda g, name=name: norms.__setitem__(name, g.norm().item()))
    p.register_post_accumulate_grad_hook(lambda p: norms.setdefault("calls", []).append(1))
net[0].register_full_backward_hook(lambda m, gi, go: norms.update(out=go[0].std().item()))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(torch.randn(9, 4)), torch.randint(0, 2, (9,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
