import torch
import torch.nn as nn

torch.manual_seed(0)
clf = nn.Linear(4, 1)
opt = torch.optim.Adam(clf.parameters())


def focal(logits, labels, gamma=2.0):
    p = torch.sigmoid(logits)
    pt = p * labels + (1 - p) * (1 - labels)
    return (-(1 - pt).pow(gamma) * pt.clamp_min(1e-6).log()).mean()


for _ in range(3):
    x = torch.randn(24, 4)
    y = (x[:, 0] > 0).float()
    loss = focal(clf(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
