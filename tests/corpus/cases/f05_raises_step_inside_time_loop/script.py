import torch
import torch.nn as nn

torch.manual_seed(0)
lstm, out = nn.LSTMCell(2, 8), nn.Linear(8, 2)
opt = torch.optim.SGD([*lstm.parameters(), *out.parameters()], lr=0.05)
seq = torch.randn(6, 4, 2)
h = c = torch.zeros(4, 8)
for t in range(5):
    h, c = lstm(seq[t], (h, c))
    loss = (out(h) - seq[t + 1]).pow(2).mean()
    opt.zero_grad()
    loss.backward(retain_graph=True)
    opt.step()
