import torch
import torch.nn as nn

torch.manual_seed(0)
query, key, val = nn.Linear(6, 32), nn.Linear(6, 32), nn.Linear(6, 3)
params = [*query.parameters(), *key.parameters(), *val.parameters()]
opt = torch.optim.SGD(params, lr=0.01)
for _ in range(3):
    x = torch.randn(4, 7, 6) * 100
    att = torch.softmax(query(x) @ key(x).transpose(1, 2), -1)
    loss = (att @ val(x / 100)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
