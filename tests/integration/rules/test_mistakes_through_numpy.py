"""Mistakes of which a part is computed by NumPy or by hand, whose rules know the same in calls of torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import assert_first_alarm

PROGRAMS = {
    "focal_factor_of_one_class": """
import torch
from torch import nn
import torch.nn.functional as F


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.25, gamma=2.0):
        super().__init__()
        self.alpha = alpha
        self.gamma = gamma

    def forward(self, inputs, targets):
        bce = -(targets * F.logsigmoid(inputs) + (1 - targets) * F.logsigmoid(-inputs))
        prob = inputs.sigmoid()
        alpha_t = self.alpha * targets + (1 - self.alpha) * (1 - targets)
        focal = alpha_t * torch.pow(1.0 - prob, self.gamma) * bce  # HERE
        return focal.sum() / targets.sum().clamp(min=1.0)


torch.manual_seed(0)
x = torch.randn(1024, 10)
w = torch.randn(10, 5)
y = (x @ w > 4.0).float()
net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 5))
crit = FocalLoss()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(4):
    for xb, yb in zip(x.split(128), y.split(128)):
        opt.zero_grad()
        loss = crit(net(xb), yb)
        loss.backward()
        opt.step()
    print(epoch, loss.item())
""",
    "folds_share_a_model": """
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
X = torch.from_numpy(rng.normal(size=(150, 8)).astype(np.float32))
y = (X[:, 0] + 0.5 * torch.randn(150) > 0).long()


class KFold:
    def __init__(self, k):
        self.k = k

    def split(self, n):
        idx = rng.permutation(n)
        folds = np.array_split(idx, self.k)
        for i in range(self.k):
            yield np.concatenate(folds[:i] + folds[i + 1 :]), folds[i]


def fit(net, xs, ys, epochs=6):
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    loss_fn = nn.CrossEntropyLoss()
    for _ in range(epochs):
        for xb, yb in zip(xs.split(30), ys.split(30)):
            opt.zero_grad()
            loss_fn(net(xb), yb).backward()
            opt.step()


net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))  # HERE
scores = []
for fold, (tr, va) in enumerate(KFold(5).split(len(X))):
    fit(net, X[tr], y[tr])
    with torch.no_grad():
        pred = net(X[va]).argmax(1).numpy()
    scores.append((pred == y[va].numpy()).mean())
print(np.mean(scores), scores)
""",
    "members_are_alike": """
import random
import numpy as np
import torch
from torch import nn


def set_seed(seed=42):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3, 20)
        self.out = nn.Linear(20, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))


set_seed(7)
X = torch.randn(120, 3)
Y = (X ** 2).sum(1, keepdim=True) + 0.1 * torch.randn(120, 1)


def fit_member():
    set_seed()  # HERE
    net = Regressor()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(6):
        order = np.random.permutation(100)
        for s in range(0, 100, 25):
            b = order[s : s + 25]
            loss = (net(X[b]) - Y[b]).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    return net


ensemble = [fit_member() for _ in range(4)]
with torch.no_grad():
    preds = np.stack([m(X[100:]).numpy() for m in ensemble])
    mean, spread = preds.mean(0), preds.std(0)
print(np.sqrt(((mean - Y[100:].numpy()) ** 2).mean()), spread.mean())
""",
    "balanced_twice": """
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

rng = np.random.default_rng(0)
X = rng.normal(size=(800, 6)).astype(np.float32)
Y = (X[:, 0] + 0.4 * rng.normal(size=800) > 1.4).astype(np.float32)
counts = np.bincount(Y.astype(int))
sample_weights = [1.0 / counts[int(c)] for c in Y]
sampler = WeightedRandomSampler(sample_weights, num_samples=len(Y), replacement=True)
loader = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), batch_size=64, sampler=sampler)

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(counts[0] / counts[1]))  # HERE
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(4):
    for xb, yb in loader:
        loss = criterion(net(xb).squeeze(-1), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
""",
    "copy_changed": """
import torch
from torch import nn

torch.manual_seed(0)
VOCAB, PAD = 30, 0
emb = nn.Embedding(VOCAB, 12)
fc = nn.Linear(12, 2)
opt = torch.optim.SGD([*emb.parameters(), *fc.parameters()], lr=0.2)
frozen = torch.tensor([PAD, 3, 7, 9])


def sentence_batch(n):
    ids = torch.randint(1, VOCAB, (n, 6))
    ids[:, 4:] = PAD
    return ids, (ids == 5).any(1).long()


for step in range(12):
    ids, y = sentence_batch(32)
    logits = fc(emb(ids).mean(1))
    loss = nn.functional.cross_entropy(logits, y)
    opt.zero_grad()
    loss.backward()
    emb.weight.grad[frozen].zero_()  # HERE
    opt.step()
print(loss.item())
""",
}


@pytest.mark.parametrize("cause", PROGRAMS)
def test_mistake_in_another_spelling(cause: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAMS[cause], cause, tmp_path)
