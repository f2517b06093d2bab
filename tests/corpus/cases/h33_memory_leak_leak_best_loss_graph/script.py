import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 1))
opt = torch.optim.Adam(net.parameters())
log = {"step": [], "loss": [], "pred": []}


def record(**kw):
    for k, v in kw.items():
        log[k].append(v)


for step in range(30):
    x = torch.randn(8, 5)
    pred = net(x)
    loss = (pred - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    record(step=step, loss=loss, pred=pred)
