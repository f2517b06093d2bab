"""Mistakes in what arrays, loaders and caches hold, whose rules know the same in tensors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import assert_first_alarm

PROGRAMS = {
    "windows_split_at_random": """
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


class WindowDataset(Dataset):
    def __init__(self, series, history=16, horizon=2):
        self.s, self.h, self.f = torch.as_tensor(series, dtype=torch.float32), history, horizon

    def __len__(self):
        return len(self.s) - self.h - self.f + 1

    def __getitem__(self, i):
        return self.s[i : i + self.h], self.s[i + self.h : i + self.h + self.f]


rng = np.random.default_rng(0)
walk = np.cumsum(rng.normal(size=400)) * 0.2
torch.manual_seed(0)
ds = WindowDataset(walk)
idx = np.arange(len(ds))
np.random.seed(0)
np.random.shuffle(idx)  # HERE
cut = int(0.8 * len(ds))
tr = torch.utils.data.Subset(ds, idx[:cut])
va = torch.utils.data.Subset(ds, idx[cut:])
tr_dl = DataLoader(tr, batch_size=32, shuffle=True)
va_dl = DataLoader(va, batch_size=64)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(4):
    for h, f in tr_dl:
        loss = nn.functional.mse_loss(net(h), f)
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        v = sum(nn.functional.mse_loss(net(h), f, reduction="sum").item() for h, f in va_dl) / len(va)
    print(epoch, v)
""",
    "sides_not_exchanged": """
import numpy as np
import torch
from torch import nn

KEYPOINTS = ["nose", "left_eye", "right_eye", "left_ear", "right_ear"]
S = 12


class HorizontalFlip:
    def __init__(self, p=0.5):
        self.p = p

    def __call__(self, img, kps):
        if np.random.rand() < self.p:
            img = np.ascontiguousarray(img[:, ::-1])
            kps = kps.copy()
            kps[:, 0] = img.shape[1] - 1 - kps[:, 0]  # HERE
        return img, kps


class Faces(torch.utils.data.Dataset):
    def __init__(self, n, tf):
        rng = np.random.RandomState(0)
        base = np.array([[6, 6], [4, 4], [8, 4], [2, 6], [10, 6]])
        self.kps = base[None] + rng.randint(-1, 2, (n, 1, 2))
        self.tf = tf

    def __len__(self):
        return len(self.kps)

    def __getitem__(self, i):
        img = np.zeros((S, S), dtype=np.float32)
        k = self.kps[i].astype(np.float32)
        for j, (x, y) in enumerate(self.kps[i]):
            img[y, x] = 1.0 + 0.3 * j
        img, k = self.tf(img, k)
        return torch.from_numpy(img).flatten(), torch.from_numpy(k / S).flatten()


np.random.seed(0)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(S * S, 48), nn.ReLU(), nn.Linear(48, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(4):
    for img, k in torch.utils.data.DataLoader(Faces(160, HorizontalFlip()), batch_size=20, shuffle=True):
        loss = nn.functional.mse_loss(net(img), k)
        opt.zero_grad()
        loss.backward()
        opt.step()
print(loss.item())
""",
    "padding_in_count": """
import math
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

PAD, V = 0, 20


class CharLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, 12, padding_idx=PAD)
        self.rnn = nn.LSTM(12, 24, batch_first=True)
        self.out = nn.Linear(24, V)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def collate(seqs):
    batch = pad_sequence(seqs, batch_first=True, padding_value=PAD)
    return batch[:, :-1], batch[:, 1:]


def perplexity(model, loader):
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, reduction="sum")
    nll, n_tokens = 0.0, 0
    with torch.no_grad():
        for inp, tgt in loader:
            nll += criterion(model(inp).reshape(-1, V), tgt.reshape(-1)).item()
            n_tokens += tgt.size(0) * tgt.size(1)  # HERE
    return math.exp(nll / n_tokens)


torch.manual_seed(0)
seqs = [(torch.arange(int(torch.randint(4, 20, ()))) + int(torch.randint(0, 19, ()))) % 19 + 1 for _ in range(200)]
train = torch.utils.data.DataLoader(seqs[:160], batch_size=20, shuffle=True, collate_fn=collate)
test = torch.utils.data.DataLoader(seqs[160:], batch_size=20, collate_fn=collate)
lm = CharLM()
opt = torch.optim.Adam(lm.parameters(), lr=1e-2)
for epoch in range(3):
    for inp, tgt in train:
        loss = nn.functional.cross_entropy(lm(inp).reshape(-1, V), tgt.reshape(-1), ignore_index=PAD)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, perplexity(lm, test))
""",
    "kept_from_before_steps": """
from functools import cached_property
import torch
from torch import nn


class TwoTower(nn.Module):
    def __init__(self, n_users, item_feats, dim=8):
        super().__init__()
        self.users = nn.Embedding(n_users, dim)
        self.item_tower = nn.Sequential(nn.Linear(item_feats.shape[1], 16), nn.ReLU(), nn.Linear(16, dim))
        self.register_buffer("feats", item_feats)

    @cached_property
    def item_matrix(self):
        return self.item_tower(self.feats)  # HERE

    def score(self, u, i):
        return (self.users(u) * self.item_tower(self.feats[i])).sum(-1)

    def rank(self, u):
        return self.users(u) @ self.item_matrix.T


torch.manual_seed(0)
feats = torch.randn(50, 6)
model = TwoTower(30, feats)
taste = torch.randn(30, 6)
pos = (taste @ feats.T).topk(5, dim=1).indices
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(5):
    for _ in range(10):
        u = torch.randint(0, 30, (32,))
        p = pos[u, torch.randint(0, 5, (32,))]
        n = torch.randint(0, 50, (32,))
        loss = nn.functional.softplus(model.score(u, n) - model.score(u, p)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        top = model.rank(torch.arange(30)).argmax(1)
        print(epoch, (pos == top[:, None]).any(1).float().mean().item())
""",
}


@pytest.mark.parametrize("cause", PROGRAMS)
def test_mistake_in_another_spelling(cause: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAMS[cause], cause, tmp_path)
