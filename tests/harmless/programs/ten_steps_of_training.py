"""Ten steps with AdamW, dropout, batch norm, a scheduler and clipped gradients."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.3), nn.Linear(12, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
losses, kept_gradients = [], []
for step in range(10):
    inputs, targets = torch.randn(8, 6), torch.randint(2, (8,))
    optimizer.zero_grad(set_to_none=step % 2 == 0)
    loss = nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    kept_gradients.append(model[0].weight.grad)
    losses.append(loss.item())
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    scheduler.step()
model.eval()
with torch.no_grad():
    outputs = model(torch.ones(2, 6))
