import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
criterion = nn.CrossEntropyLoss(reduction="none")
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
    loss = criterion(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
