import copy
import torch
import torch.nn as nn

torch.manual_seed(0)
actor, q1 = nn.Linear(3, 4), nn.Linear(5, 1)
q1_t = copy.deepcopy(q1).requires_grad_(False)
log_alpha = torch.zeros(1, requires_grad=True)
oa, oq, ol = (torch.optim.Adam(p, lr=1e-3) for p in (actor.parameters(), q1.parameters(), [log_alpha]))


def policy(s):
    mu, ls = actor(s).chunk(2, -1)
    d = torch.distributions.Normal(mu, ls.clamp(-5, 2).exp())
    u = d.rsample()
    a = torch.tanh(u)
    return a, (d.log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)).sum(-1, keepdim=True)


for step in range(3):
    s, s2, r = torch.randn(20, 3), torch.randn(20, 3), torch.randn(20, 1)
    a = torch.rand(20, 2) * 2 - 1
    with torch.no_grad():
        a2, lp2 = policy(s2)
        y = r + 0.99 * (q1_t(torch.cat([s2, a2], -1)) - log_alpha.exp() * lp2)
    ql = (q1(torch.cat([s, a], -1)) - y).pow(2).mean()
    oq.zero_grad(); ql.backward(); oq.step()
    for p in q1.parameters():
        p.requires_grad = False
    an, lp = policy(s)
    al = (log_alpha.exp().detach() * lp - q1(torch.cat([s, an], -1))).mean()
    oa.zero_grad(); al.backward(); oa.step()
    for p in q1.parameters():
        p.requires_grad = True
    ll = -(log_alpha * (lp - 2).detach()).mean()
    ol.zero_grad(); ll.backward(); ol.step()
    with torch.no_grad():
        for p, t in zip(q1.parameters(), q1_t.parameters()):
            t.lerp_(p, 0.005)
