import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).eval()
x, y = torch.rand(4, 4, 4), torch.randint(0, 3, (4,))
adv = x.clone()
for i in range(4):
    adv = adv.detach().requires_grad_()
    loss = nn.functional.cross_entropy(model(adv), y)
    g, = torch.autograd.grad(loss, adv)
    adv = (adv + 0.02 * g.sign()).clamp(0, 1)
    adv = x + (adv - x).clamp(-0.05, 0.05)
