import torch
import torch.nn as nn

torch.manual_seed(0)
energy = nn.Linear(6, 10)
nn.init.normal_(energy.weight, std=40.0)


def free_energy(logits, temperature=0.5):
    z = logits / temperature
    return -temperature * torch.log(torch.exp(z).sum(1))


opt = torch.optim.Adam(energy.parameters(), lr=1e-3)
for step in range(2):
    x = torch.randn(12, 6)
    loss = torch.relu(free_energy(energy(x)) + 5).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
