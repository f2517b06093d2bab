import csv
import io
import torch
import torch.nn as nn

RAW = "a,b,price\n1.0,2.0,3.1\n0.5,1.5,nan\n2.0,0.1,2.2\n1.2,0.4,1.7\n"


def read(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    x = torch.tensor([[float(r["a"]), float(r["b"])] for r in rows])
    y = torch.tensor([float(r["price"]) for r in rows])
    return x, y


torch.manual_seed(0)
x, y = read(RAW)
f = nn.Linear(2, 1)
opt = torch.optim.SGD(f.parameters(), lr=0.01)
for epoch in range(3):
    loss = (f(x).squeeze(1) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
