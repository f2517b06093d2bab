import torch
import torch.nn as nn

torch.manual_seed(0)
pi, v = nn.Linear(4, 3), nn.Linear(4, 1)
opt = torch.optim.Adam([*pi.parameters(), *v.parameters()], lr=3e-4)
for it in range(2):
    with torch.no_grad():
        obs = torch.randn(64, 4)
        d = torch.distributions.Categorical(logits=pi(obs))
        act = d.sample()
        old = d.log_prob(act)
        ret = torch.randn(64)
        adv = ret - v(obs).squeeze(-1)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for epoch in range(2):
        for idx in torch.randperm(64).split(32):
            d = torch.distributions.Categorical(logits=pi(obs[idx]))
            ratio = (d.log_prob(act[idx]) - old[idx]).exp()
            loss_pi = -torch.min(ratio * adv[idx], ratio.clamp(0.8, 1.2) * adv[idx]).mean()
            loss_v = (v(obs[idx]).squeeze(-1) - ret[idx]).pow(2).mean()
            loss = loss_pi + 0.5 * loss_v - 0.01 * d.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_([*pi.parameters(), *v.parameters()], 0.5)
            opt.step()
