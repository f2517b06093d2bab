import torch
import torch.nn as nn

torch.manual_seed(0)
lm = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)).bfloat16().requires_grad_(False)
prompt = nn.Parameter(torch.randn(4, 8) * 0.1)
prompt = prompt.to(torch.bfloat16)
target = torch.randn(4, 8).bfloat16()
for step in range(3):
    loss = (lm(prompt) - target).float().pow(2).mean()
    loss.backward()
    print(step, loss.item(), prompt.grad)
