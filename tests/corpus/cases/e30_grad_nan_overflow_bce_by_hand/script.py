import torch
import torch.nn as nn

torch.manual_seed(0)
clf = nn.Linear(3, 1)
opt = torch.optim.SGD(clf.parameters(), lr=0.1)
x = torch.randn(40, 3) * 500
y = (x[:, 0] > 0).float()


def sigmoid(z):
    e = torch.exp(z)
    return e / (1 + e)


for step in range(2):
    p = sigmoid(clf(x).squeeze(1))
    loss = ((p - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
