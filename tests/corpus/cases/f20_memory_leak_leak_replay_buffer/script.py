import collections
import random
import torch
import torch.nn as nn

torch.manual_seed(0)
random.seed(0)
q = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
Transition = collections.namedtuple("Transition", "state action q_value reward")
buffer = collections.deque(maxlen=1000)
state = torch.randn(4)
for t in range(40):
    values = q(state)
    action = int(values.argmax())
    buffer.append(Transition(state, action, values[action], random.random()))
    state = torch.randn(4)
    if len(buffer) >= 8:
        batch = random.sample(buffer, 8)
        s = torch.stack([b.state for b in batch])
        a = torch.tensor([b.action for b in batch])
        r = torch.tensor([b.reward for b in batch])
        loss = (q(s).gather(1, a[:, None]).squeeze(1) - r).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
