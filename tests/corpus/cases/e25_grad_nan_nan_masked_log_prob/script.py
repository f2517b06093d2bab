import torch
import torch.nn as nn

torch.manual_seed(0)
policy = nn.Linear(4, 6)
opt = torch.optim.Adam(policy.parameters())
for step in range(2):
    state = torch.randn(10, 4)
    legal = torch.rand(10, 6) > 0.4
    legal[:, 0] = True
    logits = policy(state).masked_fill(~legal, float("-inf"))
    p = torch.softmax(logits, -1)
    plogp = p * p.log()
    entropy = -torch.where(legal, plogp, torch.zeros_like(plogp)).sum(-1)
    loss = -entropy.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
