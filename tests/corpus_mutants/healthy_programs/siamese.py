import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

embedding = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 6))
opt = torch.optim.SGD(embedding.parameters(), lr=0.05, momentum=0.9)
margin = 1.0
for step in range(5):
    anchor = torch.randn(20, 12)
    positive = anchor + 0.1 * torch.randn(20, 12)
    negative = torch.randn(20, 12)
    ea, ep, en = embedding(anchor), embedding(positive), embedding(negative)
    d_pos = (ea - ep).square().sum(1)
    d_neg = (ea - en).square().sum(1)
    hinge = F.relu(d_pos - d_neg + margin)
    loss = hinge.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
