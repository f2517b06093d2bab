import torch
import torch.nn as nn

torch.manual_seed(0)
first = nn.Linear(4, 12)
stack = nn.ModuleList(nn.Linear(12, 12) for _ in range(14))
last = nn.Linear(12, 2)
opt = torch.optim.Adam([*first.parameters(), *stack.parameters(), *last.parameters()])


def forward(x):
    h = torch.sigmoid(first(x))
    for layer in stack:
        h = torch.sigmoid(layer(h))
    return last(h)


for step in range(3):
    x, y = torch.randn(24, 4), torch.randint(0, 2, (24,))
    loss = nn.functional.cross_entropy(forward(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
