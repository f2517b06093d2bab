import torch
import torch.nn as nn

torch.manual_seed(0)
encoder = nn.Linear(8, 6)
net = nn.Linear(6, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def batches(n):
    with torch.no_grad():
        for _ in range(n):
            raw = torch.randn(10, 8)
            yield encoder(raw), torch.randint(0, 2, (10,))


for features, labels in batches(3):
    loss = nn.functional.cross_entropy(net(features), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
