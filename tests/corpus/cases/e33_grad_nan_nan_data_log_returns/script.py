import numpy as np
import torch
import torch.nn as nn

rng = np.random.default_rng(0)
prices = np.cumsum(rng.normal(size=(4, 30)), axis=1) + 20
prices[2, 10] = -1.0
with np.errstate(all="ignore"):
    returns = np.diff(np.log(prices), axis=1).astype(np.float32)
series = torch.from_numpy(returns)[..., None]
torch.manual_seed(0)
rnn, out = nn.GRU(1, 8, batch_first=True), nn.Linear(8, 1)
opt = torch.optim.Adam([*rnn.parameters(), *out.parameters()])
for step in range(2):
    pred = out(rnn(series[:, :-1])[0])
    loss = (pred - series[:, 1:]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
