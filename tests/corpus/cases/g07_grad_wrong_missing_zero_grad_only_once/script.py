import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(6, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
data = [(torch.randn(16, 6), torch.randn(16, 1)) for _ in range(4)]
for epoch in range(2):
    opt.zero_grad()
    for x, y in data:
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        opt.step()
