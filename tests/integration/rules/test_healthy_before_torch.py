"""Programs whose arrays look like the mistakes that they may bring, and have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import alarms

PAIRS = """
import torch
from torch import nn
import torch.nn.functional as F


class Pairs(torch.utils.data.Dataset):
    def __init__(self, n=128):
        self.cls = torch.randint(0, 4, (n,))
        self.x = torch.randn(n, 8) + 2 * self.cls[:, None]
        self.other = torch.randint(0, n, (n,))

    def __len__(self):
        return len(self.cls)

    def __getitem__(self, i):
        j = self.other[i].item()
        return self.x[i], self.x[j], LABEL


torch.manual_seed(0)
tower = nn.Linear(8, 4)
optimizer = torch.optim.Adam(tower.parameters(), lr=1e-3)
for epoch in range(3):
    for a, b, y in torch.utils.data.DataLoader(Pairs(), batch_size=32, shuffle=True):
        d = F.pairwise_distance(tower(a), tower(b))
        y = y.float()
        loss = (LOSS).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
PROGRAMS = {
    "hours divided by their period": """
import numpy as np
import torch
from torch import nn
rng = np.random.default_rng(0)
hour, phase = rng.integers(0, 24, 200), rng.random(200)
def circle(v, period):
    a = 2 * np.pi * v / period
    return np.column_stack([np.sin(a), np.cos(a)])
share = hour / 24
waves = np.stack([np.sin(2 * np.pi * phase), np.cos(2 * np.pi * share)], 1)
x = torch.tensor(np.hstack([circle(hour, 24), waves]), dtype=torch.float32)
y = torch.tensor((hour > 12).astype("float32"))[:, None]
m = nn.Linear(4, 1); opt = torch.optim.Adam(m.parameters(), lr=1e-2)
for s in range(12):
    loss = nn.functional.mse_loss(m(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "frequencies of any size": """
import numpy as np
import torch
from torch import nn
rng = np.random.default_rng(0)
t = np.arange(200)
freqs = rng.normal(size=4)
feats = np.stack([np.sin(2 * np.pi * f * t) for f in freqs] + [np.cos(2 * np.pi * t * 0.01)], 1)
x = torch.tensor(feats, dtype=torch.float32); y = torch.sin(torch.arange(200) / 9.0)[:, None]
m = nn.Linear(5, 1); opt = torch.optim.Adam(m.parameters(), lr=1e-2)
for s in range(12):
    loss = nn.functional.mse_loss(m(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "rows repeated behind the split": """
import numpy as np
import torch
from torch import nn
def oversample(x, y):
    more = np.random.choice(np.where(y == 1)[0], 60)
    return np.concatenate([x, x[more]]), np.concatenate([y, y[more]])
def train_test_split(x, y, share):
    i = np.random.permutation(len(x)); n = int(len(x) * share)
    return x[i[n:]], x[i[:n]], y[i[n:]], y[i[:n]]
np.random.seed(0)
x = np.random.randn(200, 5).astype("float32"); y = (x[:, 0] > 1).astype("int64")
xa, xb, ya, yb = train_test_split(x, y, 0.25)
xa, ya = oversample(xa, ya)
xt, yt = torch.from_numpy(xa), torch.from_numpy(ya)
m = nn.Linear(5, 2); opt = torch.optim.Adam(m.parameters(), lr=1e-2)
for s in range(12):
    loss = nn.functional.cross_entropy(m(xt), yt)
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    print((m(torch.from_numpy(xb)).argmax(1).numpy() == yb).mean())
""",
    "two sites joined": """
import numpy as np
import torch
from torch import nn
def train_test_split(x, y, share):
    i = np.random.permutation(len(x)); n = int(len(x) * share)
    return x[i[n:]], x[i[:n]], y[i[n:]], y[i[:n]]
np.random.seed(0)
a, b = np.random.randn(100, 5).astype("float32"), np.random.randn(100, 5).astype("float32")
x = np.concatenate([a, b[:80]]); x = np.concatenate([x, x[:, :2] ** 2], axis=1); y = (x[:, 0] > 0).astype("int64")
xa, xb, ya, yb = train_test_split(x, y, 0.25)
xt, yt = torch.from_numpy(xa), torch.from_numpy(ya)
m = nn.Linear(7, 2); opt = torch.optim.Adam(m.parameters(), lr=1e-2)
for s in range(12):
    loss = nn.functional.cross_entropy(m(xt), yt)
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    print((m(torch.from_numpy(xb)).argmax(1).numpy() == yb).mean())
""",
    "sizes in one order": """
import numpy as np
import torch
from torch import nn
H, W = 40, 80
def encode(b):
    x1, y1, x2, y2 = b.unbind(-1)
    return torch.stack([x1 / W, y1 / H, x2 / W, y2 / H], dim=-1)
def decode(p):
    return p.numpy() * np.array([W, H, W, H], dtype="float32")
torch.manual_seed(0)
tl = torch.rand(100, 2) * 20; boxes = torch.cat([tl, tl + 5], 1); x = boxes @ torch.randn(4, 8) / 20
m = nn.Linear(8, 4); opt = torch.optim.Adam(m.parameters(), lr=1e-2)
for s in range(12):
    loss = nn.functional.l1_loss(m(x), encode(boxes))
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    print(decode(m(x))[:2])
""",
    "rows first for a drawing": """
import numpy as np
import torch
from torch import nn
H, W = 40, 80
def encode(b):
    return b / torch.tensor([W, H, W, H])
def rows_first(p):
    return p.numpy()[:, [1, 0, 3, 2]] * np.array([H, W, H, W], dtype="float32")
torch.manual_seed(0)
tl = torch.rand(100, 2) * 20; boxes = torch.cat([tl, tl + 5], 1); x = boxes @ torch.randn(4, 8) / 20
m = nn.Linear(8, 4); opt = torch.optim.Adam(m.parameters(), lr=1e-2)
for s in range(12):
    loss = nn.functional.l1_loss(m(x), encode(boxes))
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    print(rows_first(m(x))[:2])
""",
    "labels and the formula of one paper": PAIRS.replace("LABEL", "1.0 if self.cls[i] == self.cls[j] else 0.0").replace(
        "LOSS", "y * d**2 + (1 - y) * F.relu(1.0 - d) ** 2"
    ),
    "labels and the formula of the other paper": PAIRS.replace(
        "LABEL", "torch.tensor(self.cls[i].item() != self.cls[j].item()).float()"
    ).replace("LOSS", "(1 - y) * d**2 + y * F.relu(1.0 - d) ** 2"),
    "sequences normalized before they are padded": """
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
torch.manual_seed(0)
net = nn.Linear(3, 2)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(10):
    clips = [rng.normal(4, 1, size=(rng.integers(5, 20), 3)) for _ in range(8)]
    batch = np.zeros((8, 20, 3), dtype=np.float32)
    for row, clip in enumerate(clips):
        batch[row, : len(clip)] = (clip - clip.mean(axis=0)) / clip.std(axis=0)
    share = batch.mean(axis=1)
    loss = nn.functional.cross_entropy(net(torch.from_numpy(batch).sum(1)), torch.arange(8) % 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "shapes on a canvas": """
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
torch.manual_seed(0)
net = nn.Linear(256, 2)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)


def picture(count):
    canvas = np.zeros((16, 16), dtype=np.float32)
    for _ in range(count):
        y, x, size = rng.integers(0, 10), rng.integers(0, 10), rng.integers(2, 6)
        canvas[y : y + size, x : x + size] = 1.0
    return (canvas - canvas.mean()) / canvas.std()


for step in range(10):
    counts = rng.integers(1, 3, size=8)
    x = torch.from_numpy(np.stack([picture(count) for count in counts])).flatten(1)
    loss = nn.functional.cross_entropy(net(x), torch.from_numpy(counts - 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "all positives before all negatives": """
import torch
from torch import nn
import torch.nn.functional as F


def collate(batch):
    queries, positives, negatives = [], [], []
    for q, pos, negs in batch:
        queries.append(q)
        positives.append(pos)
        negatives.extend(negs)
    return torch.stack(queries), torch.stack(positives + negatives)


torch.manual_seed(0)
topics = torch.randn(48, 8)
rows = [(topics[i], topics[i] + 0.1, [topics[(i + k) % 48] for k in (1, 2)]) for i in range(48)]
loader = torch.utils.data.DataLoader(rows, batch_size=12, shuffle=True, collate_fn=collate)
encoder = nn.Linear(8, 6)
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
for epoch in range(3):
    for q, p in loader:
        scores = F.normalize(encoder(q), dim=1) @ F.normalize(encoder(p), dim=1).T / 0.1
        loss = F.cross_entropy(scores, torch.arange(len(q)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "labels that count the passages": """
import torch
from torch import nn
import torch.nn.functional as F


def collate(batch):
    queries, passages = [], []
    for q, pos, negs in batch:
        queries.append(q)
        passages.append(pos)
        passages.extend(negs)
    return torch.stack(queries), torch.stack(passages)


torch.manual_seed(0)
topics = torch.randn(48, 8)
rows = [(topics[i], topics[i] + 0.1, [topics[(i + k) % 48] for k in (1, 2)]) for i in range(48)]
loader = torch.utils.data.DataLoader(rows, batch_size=12, shuffle=True, collate_fn=collate)
encoder = nn.Linear(8, 6)
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
for epoch in range(3):
    for q, p in loader:
        scores = F.normalize(encoder(q), dim=1) @ F.normalize(encoder(p), dim=1).T / 0.1
        loss = F.nll_loss(scores.log_softmax(1), torch.arange(0, len(p), 3))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_without_mistake(name: str, tmp_path: Path) -> None:
    assert not alarms(PROGRAMS[name], tmp_path)
