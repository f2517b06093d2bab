import torch
import torch.nn as nn

torch.manual_seed(0)
pi, v = nn.Linear(5, 2), nn.Linear(5, 1)
opt = torch.optim.SGD([*pi.parameters(), *v.parameters()], lr=0.01)
for it in range(3):
    obs = torch.randn(20, 5)
    dist = torch.distributions.Categorical(logits=pi(obs))
    act = dist.sample()
    ret = torch.randn(20)
    adv = ret - v(obs)
    loss = -(dist.log_prob(act) * adv.detach()).mean() + 0.5 * adv.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
