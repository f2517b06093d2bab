import torch
import torch.nn as nn

torch.manual_seed(0)
rnn = nn.RNNCell(2, 10)
nn.init.normal_(rnn.weight_hh, std=0.02)
out = nn.Linear(10, 2)
opt = torch.optim.Adam([*rnn.parameters(), *out.parameters()])
for step in range(2):
    h = torch.zeros(16, 10)
    first = torch.randn(16, 2)
    x = first
    for t in range(30):
        h = rnn(x, h)
        x = torch.zeros(16, 2)
    loss = (out(h) - first).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
