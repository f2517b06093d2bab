import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters())
history, outputs, total = [], [], 0.0
for step in range(25):
    x = torch.randn(8, 4)
    out = net(x)
    loss = (out - x.sum(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    total += loss.item()
    history.append(loss.detach())
    outputs.append(out.detach().cpu().numpy())
print(total / 25, torch.stack(history).mean())
