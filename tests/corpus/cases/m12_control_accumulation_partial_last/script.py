import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(6, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
ACC = 4
opt.zero_grad(set_to_none=True)
batches = [(torch.randn(8, 6), torch.randint(0, 2, (8,))) for _ in range(10)]
for i, (x, y) in enumerate(batches):
    loss = nn.functional.cross_entropy(net(x), y) / ACC
    loss.backward()
    if (i + 1) % ACC == 0 or i + 1 == len(batches):
        opt.step()
        opt.zero_grad(set_to_none=True)
