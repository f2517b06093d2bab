import torch
import torch.nn as nn

torch.manual_seed(0)
policy = nn.Linear(6, 3)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.05)
reward_table = torch.randn(6, 3)
baseline = 0.0
for it in range(4):
    obs = torch.randn(20, 6)
    probs = policy(obs).softmax(-1)
    reward = (probs * (obs @ reward_table)).sum(-1)
    loss = -(reward - baseline).mean() + 0.1 * (reward - baseline).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    baseline = 0.9 * baseline + 0.1 * reward.mean()
