"""Programs that look like the mistakes that only arrays show, and have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import alarms

PROGRAMS = {
    "predictions restored, the error times sigma": """
import numpy as np
import torch
from torch import nn
class Scaler:
    def __init__(self, v): self.mu, self.sigma = float(np.mean(v)), float(np.std(v))
    def transform(self, v): return (v - self.mu) / self.sigma
    def inverse_transform(self, v): return v * self.sigma + self.mu
rng = np.random.default_rng(0)
v = 300 + 40 * np.sin(np.arange(300) / 12) + rng.normal(0, 5, 300)
sc = Scaler(v[:240]); z = sc.transform(v).astype("float32")
X = torch.from_numpy(np.lib.stride_tricks.sliding_window_view(z[:-1], 12).copy()); Y = torch.from_numpy(z[12:])[:, None]
net = nn.Linear(12, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for e in range(10):
    loss = nn.functional.l1_loss(net(X[:220]), Y[:220])
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    p = net(X[230:])
    mae = nn.functional.l1_loss(p, Y[230:]).item()
units = sc.inverse_transform(p.numpy())
print(mae * sc.sigma, np.mean(np.abs(units - sc.inverse_transform(Y[230:].numpy()))))
""",
    "ranked by probabilities, counted by classes": """
import numpy as np
import torch
from torch import nn
def roc_auc(y_true, y_score):
    r = np.empty(len(y_score)); r[np.argsort(y_score)] = np.arange(1, len(y_score) + 1)
    n = y_true.sum()
    return (r[y_true == 1].sum() - n * (n + 1) / 2) / (n * (len(y_true) - n))
def f1(y_true, y_pred):
    tp = (y_true * y_pred).sum()
    return 2 * tp / (y_true.sum() + y_pred.sum())
torch.manual_seed(0)
x = torch.randn(200, 4); y = (x[:, 0] > 0.3).float()
m = nn.Linear(4, 1); opt = torch.optim.Adam(m.parameters(), lr=1e-2)
for s in range(12):
    loss = nn.functional.binary_cross_entropy_with_logits(m(x[:150])[:, 0], y[:150])
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    prob = torch.sigmoid(m(x[150:])[:, 0])
pred = (prob > 0.5).float().numpy()
print(roc_auc(y[150:].numpy(), prob.numpy()), f1(y[150:].numpy(), pred))
print(roc_auc((x[150:, 1] > 0).float().numpy(), prob.numpy()))
""",
    "both parts by the statistics of the first": """
import numpy as np
import torch
from torch import nn
def by_row(a):
    return (a - a.mean(axis=1, keepdims=True)) / a.std(axis=1, keepdims=True)
def standardize(a, mu, sd):
    return (a - mu) / sd
rng = np.random.RandomState(0)
x = rng.normal(5, 3, size=(200, 6)).astype("float32"); y = (x[:, 1] > x[:, 2]).astype("int64")
xtr, xte = x[:150], x[150:]
mu, sd = xtr.mean(0), xtr.std(0)
a, b = torch.from_numpy(by_row(standardize(xtr, mu, sd))), torch.from_numpy(by_row(standardize(xte, mu, sd)))
m = nn.Linear(6, 2); opt = torch.optim.Adam(m.parameters(), lr=1e-2)
for s in range(12):
    loss = nn.functional.cross_entropy(m(a), torch.from_numpy(y[:150]))
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    print((m(b).argmax(1).numpy() == y[150:]).mean())
""",
    "windows by their past": """
import numpy as np
import torch
from torch import nn
class W(torch.utils.data.Dataset):
    def __init__(self, s): self.s = s.astype("float32")
    def __len__(self): return (len(self.s) - 25) // 5
    def __getitem__(self, i):
        w = self.s[5 * i:5 * i + 25]
        past = w[:20]
        w = (w - np.mean(past)) / (np.std(past) + 1e-6)
        return torch.from_numpy(w[:20]), torch.from_numpy(w[20:])
torch.manual_seed(0)
ds = W(50 + np.cumsum(np.random.default_rng(0).normal(size=600)))
net = nn.Linear(20, 5); opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for e in range(3):
    for p, f in torch.utils.data.DataLoader(ds, batch_size=16, shuffle=True):
        loss = nn.functional.mse_loss(net(p), f)
        opt.zero_grad(); loss.backward(); opt.step()
""",
    "labels of the same batches": """
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
class B(Dataset):
    def __init__(self, n, s):
        r = np.random.default_rng(s)
        self.targets = r.integers(0, 3, n)
        self.p = (r.normal(size=(n, 6)) + 2 * self.targets[:, None]).astype("float32")
    def __len__(self): return len(self.targets)
    def __getitem__(self, i): return self.p[i], int(self.targets[i])
torch.manual_seed(0)
tr, va = B(120, 0), B(60, 1)
dl, vl = DataLoader(tr, batch_size=24, shuffle=True), DataLoader(va, batch_size=30, shuffle=True)
ev = DataLoader(va, batch_size=30)
m = nn.Linear(6, 3); opt = torch.optim.Adam(m.parameters(), lr=1e-2)
for e in range(3):
    for a, b in dl:
        loss = nn.functional.cross_entropy(m(a), b)
        opt.zero_grad(); loss.backward(); opt.step()
    preds, labs, other = [], [], []
    with torch.no_grad():
        for a, b in vl:
            preds.extend(m(a).argmax(1).tolist()); labs.extend(b.tolist())
        for a, b in ev:
            other.extend(m(a).argmax(1).tolist())
    print(np.mean(np.array(preds) == np.array(labs)), np.mean(np.array(other) == va.targets))
    print(np.bincount(labs) == np.bincount(va.targets))
""",
    "votes of the nearest, and outliers": """
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
lab = torch.randint(0, 3, (150,)); pts = torch.randn(150, 6) + 1.5 * F.one_hot(lab, 6).float()
enc = nn.Linear(6, 4); opt = torch.optim.Adam(enc.parameters(), lr=3e-3)
for s in range(12):
    i = torch.randint(0, 100, (32,)); z = enc(pts[i])
    loss = F.cross_entropy(-torch.cdist(z, z[:3]), torch.arange(32) % 3)
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    z = enc(pts).numpy()
y = lab.numpy(); hit = 0
for q, t in zip(z[100:], y[100:]):
    d = np.linalg.norm(z[:100] - q, axis=1)
    near = np.argsort(d)[:5]
    far = np.argsort(d)[-3:]
    hit += np.bincount(y[near]).argmax() == t
    hardest = z[far].mean(0)
print(hit / 50)
""",
    "the sample left out, and a gallery": """
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
def loo(z, y):
    s = z @ z.T
    np.fill_diagonal(s, -np.inf)
    return (y[np.argmax(s, axis=1)] == y).mean()
def against(q, g, yq, yg):
    s = q @ g.T
    best = np.argmax(s, axis=1)
    return (yg[best] == yq).mean()
torch.manual_seed(0)
lab = torch.randint(0, 3, (150,)); pts = torch.randn(150, 6) + 1.5 * F.one_hot(lab, 6).float()
enc = nn.Linear(6, 4); opt = torch.optim.Adam(enc.parameters(), lr=3e-3)
for s in range(12):
    i = torch.randint(0, 100, (32,)); z = enc(pts[i])
    loss = F.triplet_margin_loss(z[:10], z[10:20], z[20:30])
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    z = F.normalize(enc(pts), dim=1).numpy()
y = lab.numpy()
print(loo(z, y), against(z[100:], z[:100], y[100:], y[:100]))
""",
    "the sample dropped from the list": """
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
lab = torch.randint(0, 3, (150,)); pts = torch.randn(150, 6) + 1.5 * F.one_hot(lab, 6).float()
enc = nn.Linear(6, 4); opt = torch.optim.Adam(enc.parameters(), lr=3e-3)
for s in range(12):
    i = torch.randint(0, 100, (32,)); z = enc(pts[i])
    loss = F.triplet_margin_loss(z[:10], z[10:20], z[20:30])
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    z = enc(pts).numpy()
y, hits = lab.numpy(), 0
for i in range(len(z)):
    d = np.linalg.norm(z - z[i], axis=1)
    near = np.argsort(d)[:6]
    near = [j for j in near if j != i][:5]
    hits += (y[near] == y[i]).mean()
print(hits / len(z))
""",
    "the first state loaded before each fold": """
import copy
import numpy as np
import torch
from torch import nn
class KFold:
    def __init__(self, k): self.k = k
    def split(self, n):
        f = np.array_split(np.random.default_rng(0).permutation(n), self.k)
        for i in range(self.k):
            yield np.concatenate(f[:i] + f[i + 1:]), f[i]
torch.manual_seed(0)
X = torch.randn(100, 5); y = (X[:, 0] > 0).long()
net = nn.Linear(5, 2)
start = copy.deepcopy(net.state_dict())
for tr, va in KFold(5).split(100):
    net.load_state_dict(start)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for e in range(5):
        loss = nn.functional.cross_entropy(net(X[tr]), y[tr])
        opt.zero_grad(); loss.backward(); opt.step()
    with torch.no_grad():
        print((net(X[va]).argmax(1) == y[va]).float().mean().item())
""",
    "two runs compared": """
import numpy as np
import torch
from torch import nn
X = torch.randn(120, 3); Y = (X ** 2).sum(1, keepdim=True)
def fit(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for s in range(12):
        loss = (net(X[:100]) - Y[:100]).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
    return net
with torch.no_grad():
    pass
a, b = (fit(0)(X).detach().numpy() for _ in range(2))
assert np.allclose(a, b)
""",
    "drawn by hospital, weighed by class": """
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 4)).astype("float32"); Y = (X[:, 0] > 0.8).astype("float32")
site = (rng.random(400) < 0.1).astype(int)
w = 1.0 / np.bincount(site)[site]
dl = DataLoader(TensorDataset(torch.tensor(X), torch.tensor(Y)), batch_size=40, sampler=WeightedRandomSampler(w, 400))
net = nn.Linear(4, 1)
crit = nn.BCEWithLogitsLoss(pos_weight=torch.tensor((Y == 0).sum() / (Y == 1).sum()))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for e in range(3):
    for a, b in dl:
        loss = crit(net(a)[:, 0], b)
        opt.zero_grad(); loss.backward(); opt.step()
""",
    "gradient rows assigned": """
import torch
from torch import nn
torch.manual_seed(0)
emb, fc = nn.Embedding(30, 8), nn.Linear(8, 2)
opt = torch.optim.SGD([*emb.parameters(), *fc.parameters()], lr=0.1)
frozen = torch.tensor([0, 3])
for step in range(10):
    ids = torch.randint(0, 30, (16, 5))
    loss = nn.functional.cross_entropy(fc(emb(ids).mean(1)), (ids == 5).any(1).long())
    opt.zero_grad(); loss.backward()
    emb.weight.grad[frozen] = 0
    emb.weight.grad[1:3].mul_(0.5)
    kept = emb.weight.grad[frozen].abs_()
    opt.step()
print(kept.sum())
""",
    "edges both ways": """
import torch
from torch import nn
torch.manual_seed(0)
a, b = torch.randint(0, 40, (100,)), torch.randint(0, 40, (100,))
src, dst = torch.cat([a, b]), torch.cat([b, a])
edge = torch.stack([src, dst])
x, y = torch.randn(40, 5), torch.randint(0, 3, (40,))
l = nn.Linear(5, 3)
opt = torch.optim.Adam(l.parameters(), lr=1e-2)
for step in range(10):
    row, col = edge
    m = l(x)[row]
    out = torch.zeros(40, 3).scatter_add(0, col[:, None].expand_as(m), m)
    deg = torch.bincount(row, minlength=40).clamp(min=1).float()
    loss = nn.functional.cross_entropy(out / deg[:, None], y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "samples counted beside batches": """
import torch
from torch import nn
torch.manual_seed(0)
x = torch.randn(100, 4); y = (x[:, 0] > 0).long()
m = nn.Linear(4, 2)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for epoch in range(3):
    right, n, batches = 0, 0, 0
    for xb, yb in zip(x.split(20), y.split(20)):
        out = m(xb)
        loss = nn.functional.cross_entropy(out, yb)
        opt.zero_grad(); loss.backward(); opt.step()
        right += (out.argmax(1) == yb).float().sum().item()
        n += len(yb)
        batches += 1
    print(right / n, right / batches / 20)
""",
    "losses of one signature": """
import torch
from torch import nn
class Plain(nn.Module):
    def forward(self, pred, target, mask):
        return (pred - target).pow(2).mean()
class Masked(nn.Module):
    def forward(self, pred, target, mask):
        return ((pred - target).pow(2) * mask).sum() / mask.sum()
LOSSES = {"plain": Plain, "masked": Masked}
torch.manual_seed(0)
net = nn.Linear(6, 6)
crit = LOSSES["plain"]()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(10):
    x = torch.randn(32, 6)
    mask = (torch.rand(32, 6) > 0.3).float()
    loss = crit(net(x), x, mask)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "an inversion that walks upwards from data": """
import torch
from torch import nn
torch.manual_seed(0)
T = 20
betas = torch.linspace(1e-3, 0.2, T)
abar = torch.cumprod(1 - betas, 0)
net = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
data = torch.randn(256, 2) * 0.1 + 1
for step in range(12):
    x0 = data[torch.randint(0, 256, (64,))]
    t = torch.randint(0, T, (64,)); e = torch.randn_like(x0); ab = abar[t][:, None]
    loss = (net(torch.cat([ab.sqrt() * x0 + (1 - ab).sqrt() * e, t[:, None] / T], 1)) - e).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    x = data[:32]
    steps = torch.arange(T - 1)
    for t in steps:
        a, an = abar[t], abar[t + 1]
        e = net(torch.cat([x, torch.full((32, 1), float(t) / T)], 1))
        x = an.sqrt() * (x - (1 - a).sqrt() * e) / a.sqrt() + (1 - an).sqrt() * e
""",
    "a cache that is dropped": """
from functools import cached_property
import torch
from torch import nn
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.u, self.t = nn.Embedding(10, 4), nn.Linear(6, 4)
        self.register_buffer("f", torch.randn(20, 6))
    @cached_property
    def items(self):
        return self.t(self.f)
    def train(self, mode=True):
        self.__dict__.pop("items", None)
        return super().train(mode)
torch.manual_seed(0)
m = M()
opt = torch.optim.Adam(m.parameters(), lr=1e-2)
for e in range(4):
    m.train()
    u, i = torch.randint(0, 10, (32,)), torch.randint(0, 20, (32,))
    loss = -nn.functional.logsigmoid((m.u(u) * m.t(m.f[i])).sum(1)).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    m.eval()
    with torch.no_grad():
        print((m.u.weight @ m.items.T).argmax(1)[:3])
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_without_mistake(name: str, tmp_path: Path) -> None:
    assert not alarms(PROGRAMS[name], tmp_path)
