"""Mistakes that only arrays of NumPy and numbers show, whose rules know the same in calls of torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import assert_first_alarm

PROGRAMS = {
    "labels_in_other_order": """
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.targets = rng.integers(0, 3, n)
        self.points = rng.normal(size=(n, 6)).astype("float32") + 2.0 * self.targets[:, None].astype("float32")

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, idx):
        return self.points[idx], int(self.targets[idx])


torch.manual_seed(0)
train_ds, val_ds = Blobs(240, 0), Blobs(90, 1)
train_dl = DataLoader(train_ds, batch_size=24, shuffle=True)
val_dl = DataLoader(val_ds, batch_size=30, shuffle=True)  # HERE
clf = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(clf.parameters(), lr=1e-2)

for epoch in range(4):
    clf.train()
    for pts, t in train_dl:
        loss = nn.functional.cross_entropy(clf(pts), t)
        opt.zero_grad()
        loss.backward()
        opt.step()
    clf.eval()
    preds = []
    with torch.no_grad():
        for pts, _ in val_dl:
            preds.extend(clf(pts).argmax(dim=1).tolist())
    acc = np.mean(np.array(preds) == val_ds.targets)
    print(epoch, acc)
""",
    "fitted_on_each_part": """
import numpy as np
import torch
from torch import nn


def load():
    rng = np.random.RandomState(0)
    x = rng.normal(size=(300, 5)) * np.array([1, 5, 20, 2, 9]) + np.array([3, 10, -40, 0, 7])
    y = (x[:, 1] > 10).astype(np.int64)
    return x.astype(np.float32), y


def standardize(a):
    mu = np.mean(a, axis=0)
    sd = np.std(a, axis=0) + 1e-8
    return (a - mu) / sd


features, target = load()
n_train = int(0.75 * len(features))
X_tr, X_te = features[:n_train], features[n_train:]
y_tr, y_te = target[:n_train], target[n_train:]
X_tr = torch.from_numpy(standardize(X_tr))
X_te = torch.from_numpy(standardize(X_te))  # HERE
y_tr, y_te = torch.from_numpy(y_tr), torch.from_numpy(y_te)

torch.manual_seed(0)
clf = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(clf.parameters(), lr=1e-2)
ce = nn.CrossEntropyLoss()
for epoch in range(10):
    for i in range(0, n_train, 45):
        loss = ce(clf(X_tr[i : i + 45]), y_tr[i : i + 45])
        opt.zero_grad()
        loss.backward()
        opt.step()
with torch.inference_mode():
    acc = (clf(X_te).argmax(-1) == y_te).float().mean()
print(f"test accuracy {acc:.3f}")
""",
    "missing_as_numbers": """
import numpy as np
import torch
from torch import nn


class StandardScaler:
    def fit(self, x):
        self.mean_ = x.mean(axis=0)
        self.scale_ = x.std(axis=0)
        return self

    def transform(self, x):
        return (x - self.mean_) / self.scale_


rng = np.random.default_rng(0)
raw = rng.normal([70, 120, 37], [8, 15, 0.5], size=(400, 3))
label = (raw[:, 1] > 125).astype(np.int64)
raw[rng.random(raw.shape) < 0.15] = np.nan
table = np.nan_to_num(raw, nan=-999.0)
tr, te = table[:300], table[300:]
scaler = StandardScaler().fit(tr)  # HERE
xtr = torch.tensor(scaler.transform(tr), dtype=torch.float32)
xte = torch.tensor(scaler.transform(te), dtype=torch.float32)
ytr, yte = torch.tensor(label[:300]), torch.tensor(label[300:])

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
for epoch in range(10):
    for b in torch.randperm(300).split(50):
        loss = nn.functional.cross_entropy(model(xtr[b]), ytr[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
with torch.no_grad():
    print((model(xte).argmax(1) == yte).float().mean().item())
""",
    "error_moved_by_mean": """
import numpy as np
import torch
from torch import nn


class Scaler:
    def __init__(self, values):
        self.mu = float(np.mean(values))
        self.sigma = float(np.std(values))

    def transform(self, v):
        return (v - self.mu) / self.sigma

    def inverse_transform(self, v):
        return v * self.sigma + self.mu


rng = np.random.default_rng(0)
t = np.arange(500)
load = 300 + 40 * np.sin(t / 12) + rng.normal(0, 5, 500)
sc = Scaler(load[:400])
z = sc.transform(load).astype(np.float32)
X = torch.from_numpy(np.lib.stride_tricks.sliding_window_view(z[:-1], 24).copy())
Y = torch.from_numpy(z[24:]).unsqueeze(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(5):
    for b in torch.randperm(370).split(37):
        loss = nn.functional.l1_loss(net(X[b]), Y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
net.eval()
with torch.no_grad():
    pred = net(X[376:])
    mae = nn.functional.l1_loss(pred, Y[376:]).item()
print("MAE in MW:", sc.inverse_transform(mae))  # HERE
""",
    "farthest_as_nearest": """
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


def knn_accuracy(query, gallery, q_lab, g_lab, k=5):
    correct = 0
    for q, lab in zip(query, q_lab):
        dist = np.sqrt(((gallery - q) ** 2).sum(axis=1))
        nearest = np.argsort(dist)[-k:]  # HERE
        votes = np.bincount(g_lab[nearest], minlength=3)
        correct += int(votes.argmax() == lab)
    return correct / len(query)


torch.manual_seed(0)
lab = torch.randint(0, 3, (240,))
pts = torch.randn(240, 8) + 1.5 * F.one_hot(lab, 8).float()
enc = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4))
opt = torch.optim.Adam(enc.parameters(), lr=3e-3)
crit = nn.TripletMarginLoss(margin=0.5)
for step in range(12):
    a = torch.randint(0, 180, (32,))
    same = lab[a][:, None] == lab[:180][None]
    p = torch.multinomial(same.float(), 1).squeeze(1)
    n = torch.multinomial((~same).float(), 1).squeeze(1)
    loss = crit(enc(pts[a]), enc(pts[p]), enc(pts[n]))
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    z = enc(pts).numpy()
print(knn_accuracy(z[180:], z[:180], lab[180:].numpy(), lab[:180].numpy()))
""",
    "ranked_by_classes": """
import numpy as np
import torch
from torch import nn


def roc_auc(y_true, y_score):
    order = np.argsort(y_score, kind="mergesort")
    ranks = np.empty(len(y_score))
    ranks[order] = np.arange(1, len(y_score) + 1)
    n_pos = y_true.sum()
    n_neg = len(y_true) - n_pos
    return (ranks[y_true == 1].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


torch.manual_seed(0)
x = torch.randn(500, 5)
y = (x[:, 0] + 0.7 * torch.randn(500) > 0.3).float()
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
loss_fn = nn.BCEWithLogitsLoss()
for epoch in range(6):
    for b in torch.randperm(400).split(50):
        loss = loss_fn(model(x[b])[:, 0], y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
model.eval()
with torch.no_grad():
    prob = torch.sigmoid(model(x[400:])[:, 0])
    pred = torch.round(prob).numpy()  # HERE
print("AUC", roc_auc(y[400:].numpy(), pred))
""",
    "scaled_by_target": """
import numpy as np
import torch
from torch import nn


class Windows(torch.utils.data.Dataset):
    def __init__(self, series, past=20, future=5):
        self.series, self.past, self.future = series.astype(np.float32), past, future

    def __len__(self):
        return (len(self.series) - self.past - self.future) // 5

    def __getitem__(self, i):
        w = self.series[5 * i : 5 * i + self.past + self.future]
        w = (w - np.mean(w)) / (np.std(w) + 1e-6)  # HERE
        return torch.from_numpy(w[: self.past]), torch.from_numpy(w[self.past :])


rng = np.random.default_rng(0)
price = 50 + np.cumsum(rng.normal(size=1200))
ds_train, ds_test = Windows(price[:900]), Windows(price[900:])
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(5):
    for p, f in torch.utils.data.DataLoader(ds_train, batch_size=16, shuffle=True):
        loss = nn.functional.mse_loss(net(p), f)
        opt.zero_grad()
        loss.backward()
        opt.step()
with torch.no_grad():
    err = [nn.functional.mse_loss(net(p), f).item() for p, f in torch.utils.data.DataLoader(ds_test, batch_size=16)]
print(np.mean(err))
""",
    "query_finds_itself": """
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


def recall_at_1(feats, labels):
    feats = feats / np.linalg.norm(feats, axis=1, keepdims=True)
    hits = 0
    for i in range(len(feats)):
        sims = feats @ feats[i]
        nearest = np.argmax(sims)  # HERE
        hits += labels[nearest] == labels[i]
    return hits / len(feats)


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 6))

    def forward(self, x):
        return F.normalize(self.f(x), dim=-1)


torch.manual_seed(0)
lab = torch.arange(5).repeat_interleave(40)
pts = torch.randn(200, 10) + 0.6 * F.one_hot(lab, 10).float()
net = Embedder()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(12):
    i = torch.randint(0, 200, (48,))
    z = net(pts[i])
    sim = z @ z.T / 0.1 - 1e9 * torch.eye(48)
    same = (lab[i][:, None] == lab[i][None]).float() - torch.eye(48)
    loss = -(same * sim.log_softmax(1)).sum(1).div(same.sum(1).clamp(min=1)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
net.eval()
with torch.no_grad():
    print(recall_at_1(net(pts).numpy(), lab.numpy()))
""",
}


@pytest.mark.parametrize("cause", PROGRAMS)
def test_mistake_in_another_spelling(cause: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAMS[cause], cause, tmp_path)
