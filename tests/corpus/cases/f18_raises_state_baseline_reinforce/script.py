import torch
import torch.nn as nn

torch.manual_seed(0)
policy, value = nn.Linear(4, 2), nn.Linear(4, 1)
opt = torch.optim.Adam([*policy.parameters(), *value.parameters()])
baseline = torch.zeros(1)
for episode in range(3):
    s = torch.randn(6, 4)
    d = torch.distributions.Categorical(logits=policy(s))
    a = d.sample()
    r = (a == 0).float()
    baseline = 0.9 * baseline + 0.1 * torch.tanh(value(s)).mean()
    loss = -(d.log_prob(a) * (r - baseline)).mean() + (r - torch.tanh(value(s)).squeeze(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
