import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

embed = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 8))
temperature = nn.Parameter(torch.ones(1))
opt = torch.optim.Adam([*embed.parameters(), temperature], lr=1e-2)
for episode in range(5):
    centers = torch.randn(4, 1, 6) * 2
    support, query = centers + 0.3 * torch.randn(4, 5, 6), centers + 0.3 * torch.randn(4, 7, 6)
    prototypes = embed(support).mean(1)
    zq = embed(query.flatten(0, 1))
    distance = (zq.unsqueeze(1) - prototypes.unsqueeze(0)).square().sum(-1)
    logits = -distance * temperature
    labels = torch.arange(4).repeat_interleave(7)
    loss = F.cross_entropy(logits, labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
