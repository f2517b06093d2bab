import torch
import torch.nn as nn

torch.manual_seed(0)
gen, dis = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
og = torch.optim.Adam(gen.parameters())
od = torch.optim.Adam(dis.parameters())
for step in range(2):
    real = torch.randn(8, 2)
    fake = torch.tanh(gen(torch.randn(8, 3)))
    d_loss = dis(fake).mean() - dis(real).mean()
    od.zero_grad()
    d_loss.backward()
    od.step()
    g_loss = -dis(fake).mean()
    og.zero_grad()
    g_loss.backward()
    og.step()
