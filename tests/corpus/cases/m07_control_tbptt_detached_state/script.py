import torch
import torch.nn as nn

torch.manual_seed(0)
emb, lstm, out = nn.Embedding(12, 8), nn.LSTM(8, 16, 2, batch_first=True), nn.Linear(16, 12)
params = [*emb.parameters(), *lstm.parameters(), *out.parameters()]
opt = torch.optim.Adam(params)
text = torch.randint(0, 12, (4, 41))
state = None
for i in range(0, 40, 10):
    if state is not None:
        state = tuple(s.detach() for s in state)
    y, state = lstm(emb(text[:, i:i + 10]), state)
    loss = nn.functional.cross_entropy(out(y).flatten(0, 1), text[:, i + 1:i + 11].flatten())
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(params, 0.25)
    opt.step()
