import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
for _ in range(3):
    x = torch.randn(64, 3)
    loss = nn.functional.mse_loss(net(x), x.sum(1, keepdim=True), reduction="none")
    opt.zero_grad()
    loss.backward(torch.ones_like(loss))
    opt.step()
