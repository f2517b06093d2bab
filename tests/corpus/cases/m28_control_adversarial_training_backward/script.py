import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(3):
    x, y = torch.randn(12, 6), torch.randint(0, 3, (12,))
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(2):
        nn.functional.cross_entropy(model(x + delta), y).backward()
        delta.data = (delta + 0.05 * delta.grad.sign()).clamp(-0.1, 0.1)
        delta.grad.zero_()
    opt.zero_grad()
    loss = nn.functional.cross_entropy(model(x + delta.detach()), y)
    loss.backward()
    opt.step()
