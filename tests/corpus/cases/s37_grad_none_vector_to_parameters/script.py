import torch
import torch.nn as nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

torch.manual_seed(0)
target = nn.Linear(4, 2)
size = parameters_to_vector(target.parameters()).numel()
hyper = nn.Linear(3, size)
context = nn.Parameter(torch.randn(3))
opt = torch.optim.Adam([*hyper.parameters(), *target.parameters(), context], lr=1e-3)
for step in range(3):
    x, y = torch.randn(12, 4), torch.randn(12, 2)
    vector = hyper(context)
    vector_to_parameters(vector, target.parameters())
    loss = (target(x) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
