import random
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
random.seed(0)


def mlp():
    return nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))


net, target = mlp(), mlp()
target.load_state_dict(net.state_dict())
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
memory, state = [], torch.zeros(4)
for t in range(40):
    if random.random() < 0.3:
        action = random.randrange(2)
    else:
        with torch.no_grad():
            action = net(state).argmax().item()
    nxt, reward, done = torch.randn(4), random.random(), random.random() < 0.1
    memory.append((state, action, reward, nxt, done))
    state = nxt
    if len(memory) < 16 or t % 4:
        continue
    s, a, r, n, d = zip(*random.sample(memory, 16))
    q = net(torch.stack(s)).gather(1, torch.tensor(a).unsqueeze(1)).squeeze(1)
    best = target(torch.stack(n)).max(1)[0].detach()
    y = torch.tensor(r) + 0.99 * best * (1 - torch.tensor(d).float())
    loss = F.smooth_l1_loss(q, y)
    opt.zero_grad()
    loss.backward()
    for p in net.parameters():
        p.grad.data.clamp_(-1, 1)
    opt.step()
    if t % 16 == 0:
        target.load_state_dict(net.state_dict())
