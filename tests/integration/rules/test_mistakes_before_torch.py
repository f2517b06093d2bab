"""Mistakes that arrays and data sets bring into a training, whose rules know the same in calls of torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import assert_first_alarm

PROGRAMS = {
    "alike_kept_apart": """
import torch
from torch import nn
import torch.nn.functional as F


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin

    def forward(self, emb1, emb2, y):
        d = F.pairwise_distance(emb1, emb2)
        pos = (1 - y) * torch.pow(d, 2)
        neg = y * torch.pow(F.relu(self.margin - d), 2)  # HERE
        return 0.5 * torch.mean(pos + neg)


class Pairs(torch.utils.data.Dataset):
    def __init__(self, n=256):
        g = torch.Generator().manual_seed(0)
        self.cls = torch.randint(0, 4, (n,), generator=g)
        self.x = torch.randn(n, 8, generator=g) + 2 * self.cls[:, None]
        self.other = torch.randint(0, n, (n,), generator=g)

    def __len__(self):
        return len(self.cls)

    def __getitem__(self, i):
        j = self.other[i].item()
        label = 1.0 if self.cls[i] == self.cls[j] else 0.0
        return self.x[i], self.x[j], label


torch.manual_seed(0)
tower = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
criterion = ContrastiveLoss(margin=1.0)
opt = torch.optim.Adam(tower.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(Pairs(), batch_size=32, shuffle=True)
for epoch in range(4):
    total = 0.0
    for a, b, y in loader:
        loss = criterion(tower(a), tower(b), y.float())
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print(epoch, total / len(loader))
""",
    "padding_in_statistics": """
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
clips = [rng.normal(4 + c, 1, size=(rng.integers(6, 30), 5)) for c in range(3) for _ in range(20)]
labels = [c for c in range(3) for _ in range(20)]


def collate(items):
    lens = [len(f) for f, _ in items]
    batch = np.zeros((len(items), max(lens), 5), dtype=np.float32)
    for row, (f, _) in enumerate(items):
        batch[row, : len(f)] = f
    mean = batch.mean(axis=1, keepdims=True)  # HERE
    std = batch.std(axis=1, keepdims=True)
    batch = (batch - mean) / (std + 1e-5)
    return torch.from_numpy(batch), torch.tensor(lens), torch.tensor([c for _, c in items])


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(5, 16, batch_first=True)
        self.fc = nn.Linear(16, 3)

    def forward(self, x, lens):
        packed = nn.utils.rnn.pack_padded_sequence(x, lens, batch_first=True, enforce_sorted=False)
        _, h = self.rnn(packed)
        return self.fc(h[-1])


torch.manual_seed(0)
net = Tagger()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
loader = torch.utils.data.DataLoader(list(zip(clips, labels)), batch_size=12, shuffle=True, collate_fn=collate)
for epoch in range(4):
    for x, lens, y in loader:
        loss = nn.functional.cross_entropy(net(x, lens), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
print(loss.item())
""",
    "periods_are_whole": """
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
n = 400
weekday = rng.integers(0, 7, n)
temp = rng.normal(15, 6, n)
sales = 20 + 8 * (weekday >= 5) + 0.4 * temp + rng.normal(0, 1, n)


def cyclical(values):
    rad = 2 * np.pi * values  # HERE
    return np.column_stack([np.sin(rad), np.cos(rad)])


feats = np.hstack([cyclical(weekday), ((temp - temp.mean()) / temp.std())[:, None]])
x = torch.tensor(feats, dtype=torch.float32)
y = torch.tensor((sales - sales.mean()) / sales.std(), dtype=torch.float32).unsqueeze(1)

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
crit = nn.MSELoss()
ds = torch.utils.data.TensorDataset(x[:320], y[:320])
for epoch in range(5):
    for xb, yb in torch.utils.data.DataLoader(ds, batch_size=32, shuffle=True):
        loss = crit(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
with torch.no_grad():
    print(crit(model(x[320:]), y[320:]).item())
""",
    "repeated_before_split": """
import numpy as np
import torch
from torch import nn


def oversample(x, y):
    minority = np.where(y == 1)[0]
    extra = np.random.choice(minority, size=(y == 0).sum() - len(minority), replace=True)
    return np.concatenate([x, x[extra]]), np.concatenate([y, y[extra]])


def train_test_split(x, y, test_size):
    idx = np.random.permutation(len(x))
    n = int(len(x) * test_size)
    return x[idx[n:]], x[idx[:n]], y[idx[n:]], y[idx[:n]]


np.random.seed(0)
x = np.random.randn(300, 8).astype(np.float32)
y = (np.random.rand(300) < 0.15).astype(np.int64)
x, y = oversample(x, y)  # HERE
xtr, xte, ytr, yte = map(torch.from_numpy, train_test_split(x, y, 0.25))
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
ce = nn.CrossEntropyLoss()
for epoch in range(10):
    for b in torch.randperm(len(xtr)).split(64):
        loss = ce(net(xtr[b]), ytr[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
with torch.no_grad():
    print("test", (net(xte).argmax(1) == yte).float().mean().item())
""",
    "restored_in_other_order": """
import numpy as np
import torch
from torch import nn

H, W = 40, 80


def encode(box):
    x1, y1, x2, y2 = box.unbind(-1)
    return torch.stack([x1 / W, y1 / H, x2 / W, y2 / H], dim=-1)


def decode(pred):
    scale = np.array([H, W, H, W], dtype=np.float32)
    return pred.numpy() * scale  # HERE


def iou(a, b):
    lt, rb = np.maximum(a[:, :2], b[:, :2]), np.minimum(a[:, 2:], b[:, 2:])
    inter = np.clip(rb - lt, 0, None).prod(1)
    area = lambda v: (v[:, 2:] - v[:, :2]).prod(1)
    return inter / (area(a) + area(b) - inter)


torch.manual_seed(0)
tl = torch.rand(400, 2) * torch.tensor([50.0, 20.0])
boxes = torch.cat([tl, tl + torch.rand(400, 2) * torch.tensor([25.0, 15.0]) + 4], dim=1)
feats = boxes @ torch.randn(4, 12) / 20 + 0.05 * torch.randn(400, 12)
net = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 4), nn.Sigmoid())
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(10):
    for b in torch.randperm(320).split(40):
        loss = nn.functional.l1_loss(net(feats[b]), encode(boxes[b]))
        opt.zero_grad()
        loss.backward()
        opt.step()
with torch.no_grad():
    out = decode(net(feats[320:]))
print("IoU", iou(out, boxes[320:].numpy()).mean())
""",
    "positive_every_few": """
import torch
from torch import nn
import torch.nn.functional as F

NEG = 2


class BiEncoder(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q_proj = nn.Linear(d, 16)
        self.p_proj = nn.Linear(d, 16)

    def forward(self, q, p):
        q = F.normalize(self.q_proj(q), dim=-1)
        p = F.normalize(self.p_proj(p), dim=-1)
        return torch.matmul(q, p.transpose(0, 1)) / 0.05


def collate(batch):
    queries, passages = [], []
    for q, pos, negs in batch:
        queries.append(q)
        passages.append(pos)
        passages.extend(negs)
    return torch.stack(queries), torch.stack(passages)


torch.manual_seed(0)
topics = torch.randn(64, 12)
rows = []
for i in range(64):
    negs = [topics[(i + k + 1) % 64] + 0.1 * torch.randn(12) for k in range(NEG)]
    rows.append((topics[i] + 0.1 * torch.randn(12), topics[i] + 0.1 * torch.randn(12), negs))
loader = torch.utils.data.DataLoader(rows, batch_size=16, shuffle=True, collate_fn=collate)
model = BiEncoder(12)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(5):
    for q, p in loader:
        scores = model(q, p)
        target = torch.arange(q.size(0))  # HERE
        loss = F.nll_loss(F.log_softmax(scores, dim=1), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
print(loss.item())
""",
}


@pytest.mark.parametrize("cause", PROGRAMS)
def test_mistake_in_another_spelling(cause: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAMS[cause], cause, tmp_path)
