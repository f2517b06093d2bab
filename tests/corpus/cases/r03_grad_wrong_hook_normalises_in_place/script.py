import torch
from torch import nn

torch.manual_seed(0)
trunk = nn.Linear(8, 16)
head_a, head_b = nn.Linear(16, 1), nn.Linear(16, 1)
stats = []


def log_direction(grad):
    direction = grad.div_(grad.norm() + 1e-9)
    stats.append(direction[0, 0].item())


opt = torch.optim.SGD([*trunk.parameters(), *head_a.parameters(), *head_b.parameters()], lr=0.01)
for step in range(5):
    x = torch.randn(32, 8)
    h = torch.tanh(trunk(x))
    h.register_hook(log_direction)
    loss = (head_a(h).squeeze() - x.sum(1)).pow(2).mean() + 0.01 * head_b(h).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(stats)
