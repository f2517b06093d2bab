import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

import copy

q_net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
target_net = copy.deepcopy(q_net)
target_net.eval()
optimizer = torch.optim.Adam(q_net.parameters(), lr=1e-3)
gamma = 0.99
history = []


def optimize(state, action, reward, next_state, done):
    q_values = q_net(state)
    q = q_values.gather(1, action.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        next_q = target_net(next_state).max(1).values
        expected = reward + gamma * next_q * (1 - done)
    loss = F.smooth_l1_loss(q, expected)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(q_net.parameters(), 0.1)
    optimizer.step()
    return loss


for step in range(8):
    state, next_state = torch.randn(32, 4), torch.randn(32, 4)
    action, reward = torch.randint(0, 2, (32,)), torch.randn(32)
    done = (torch.rand(32) < 0.1).float()
    loss = optimize(state, action, reward, next_state, done)
    history.append(loss.item())
    if step % 4 == 3:
        target_net.load_state_dict(q_net.state_dict())
