"""Second and third derivatives, gradient penalty, retain_graph, inputs=, and a second call that fails."""

import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
for _ in range(10):
    x = torch.randn(5, 3, requires_grad=True)
    (slope,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    penalty = (slope.norm(dim=1) - 1).square().mean()
    optimizer.zero_grad()
    penalty.backward()
    optimizer.step()
w = torch.tensor(1.5, requires_grad=True)
first = torch.autograd.grad(w**4, w, create_graph=True)[0]
second = torch.autograd.grad(first, w, create_graph=True)[0]
third = torch.autograd.grad(second, w)[0]
loss = critic(x).sum()
loss.backward(retain_graph=True, inputs=[x, critic[0].weight])
loss.backward()
try:
    loss.backward()
except RuntimeError as error:
    message = str(error)
