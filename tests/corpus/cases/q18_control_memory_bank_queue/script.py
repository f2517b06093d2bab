import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
encoder = nn.Linear(8, 6)
queue = F.normalize(torch.randn(32, 6), dim=1)
cursor = 0
opt = torch.optim.SGD(encoder.parameters(), lr=0.1, momentum=0.9)
for step in range(6):
    x = torch.randn(8, 8)
    q = F.normalize(encoder(x + 0.1 * torch.randn_like(x)), dim=1)
    k = F.normalize(encoder(x), dim=1).detach()
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.clone().t()], 1) / 0.2
    loss = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
    queue[cursor:cursor + 8] = k
    cursor = (cursor + 8) % 32
    opt.zero_grad()
    loss.backward()
    opt.step()
