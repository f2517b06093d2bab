"""Programs whose arrays, labels and scores are right, though they are near to mistakes that are told by the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms

PROGRAMS = {
    "a label that is one less whether two classes are equal": """
from torch.utils.data import DataLoader, Dataset
class Pairs(Dataset):
    def __init__(self, x, cls):
        self.x, self.cls = x, cls
        self.other = torch.randint(0, len(x), (len(x),))
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        j = int(self.other[i])
        label = 1.0 - float(self.cls[i] == self.cls[j])
        return self.x[i], self.x[j], label
cls = torch.randint(0, 2, (200,))
x = torch.randn(200, 5) + 2 * cls[:, None]
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(5):
    for a, b, y in DataLoader(Pairs(x, cls), batch_size=32, shuffle=True):
        d = (net(a) - net(b)).pow(2).sum(1).add(1e-8).sqrt()
        y = y.float()
        loss = ((1 - y) * d.pow(2) + y * F.relu(1.5 - d).pow(2)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "a label of one less a number that is kept first": """
from torch.utils.data import DataLoader, Dataset
class PairSet(Dataset):
    def __init__(self, x, cls):
        self.x, self.cls = x, cls
        g = torch.Generator().manual_seed(0)
        self.other = torch.randint(0, len(x), (len(x),), generator=g)
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        j = int(self.other[i])
        same = int(self.cls[i] == self.cls[j])
        return self.x[i], self.x[j], torch.tensor(1.0 - same)
cls = torch.randint(0, 2, (200,))
x = torch.randn(200, 5) + 2 * cls[:, None]
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(4):
    for a, b, far in DataLoader(PairSet(x, cls), batch_size=32, shuffle=True):
        d = F.pairwise_distance(net(a), net(b))
        loss = ((1 - far) * d.pow(2) + far * F.relu(1.0 - d).pow(2)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "rows of an array that are all of one length": """
rng = np.random.default_rng(0)
series = np.sin(np.arange(1200) / 9) + 0.1 * rng.normal(size=1200)
length = 32
starts = rng.integers(0, 1100, 256)
batch = np.zeros((len(starts), length), dtype="float32")
for row, s in enumerate(starts):
    batch[row, :length] = series[s : s + length]
centre = batch.mean(axis=1, keepdims=True)
x = torch.from_numpy(batch - centre)
net = nn.Sequential(nn.Linear(32, 8), nn.Tanh(), nn.Linear(8, 32))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.mse_loss(net(x), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "rows of an array that are filled in two parts": """
rng = np.random.default_rng(0)
def features(rows, n_num, n_cat):
    table = np.zeros((len(rows), n_num + n_cat), dtype="float32")
    for i, row in enumerate(rows):
        table[i, :n_num] = row[0]
        table[i, n_num:] = np.eye(n_cat)[row[1]]
    mean = table.mean(axis=0)
    return (table - mean) / (table.std(axis=0) + 1e-6)
rows = [(rng.normal(size=3), int(rng.integers(0, 4))) for _ in range(200)]
x = torch.from_numpy(features(rows, 3, 4).astype("float32"))
y = torch.tensor([float(r[0][0] + (r[1] == 2)) for r in rows])
net = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.mse_loss(net(x)[:, 0], y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a range in steps of a tenth, and hours that are divided in place": """
rng = np.random.default_rng(0)
t = np.arange(0, 20, step=0.1)
carrier = np.sin(2 * np.pi * t)
hour = rng.integers(0, 24, 200).astype(float)
hour /= 24.0
daily = np.cos(2 * np.pi * hour)
x = torch.tensor(np.stack([carrier, daily], 1), dtype=torch.float32)
y = x[:, :1] * 2 + x[:, 1:] + 0.1 * torch.randn(200, 1)
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a field of the program that has a share of the day": """
rng = np.random.default_rng(0)
from collections import namedtuple
Ride = namedtuple("Ride", "hour month count")
def read(n):
    rides = []
    for _ in range(n):
        h, m = int(rng.integers(0, 24)), int(rng.integers(0, 12))
        rides.append(Ride(hour=h / 24, month=m / 12, count=100 + 50 * np.sin(h / 4)))
    return rides
def encode(ride):
    return [np.sin(2 * np.pi * ride.hour), np.cos(2 * np.pi * ride.hour)]
rides = read(200)
x = torch.tensor([encode(r) for r in rides], dtype=torch.float32)
y = torch.tensor([[r.count / 100] for r in rides], dtype=torch.float32)
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "results of a shuffled loader in the order of their numbers": """
from torch.utils.data import DataLoader, Dataset
class Indexed(Dataset):
    def __init__(self, n):
        self.x = torch.randn(n, 6)
        self.targets = (self.x[:, 0] + self.x[:, 1] > 0).long()
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        return i, self.x[i], self.targets[i]
data = Indexed(160)
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(4):
    preds, places = [], []
    for i, x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        preds.append(out.argmax(1).numpy())
        places.append(i.numpy())
    by_place = np.concatenate(preds)[np.argsort(np.concatenate(places))]
    print(epoch, "training accuracy", np.mean(by_place == data.targets.numpy()))
""",
    "labels in the order in which a shuffled loader came": """
from torch.utils.data import DataLoader, Dataset
class Indexed(Dataset):
    def __init__(self, n):
        self.x = torch.randn(n, 6)
        self.targets = (self.x[:, 0] + self.x[:, 1] > 0).long()
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        return i, self.x[i], self.targets[i]
def accuracy_score(a, b):
    return float((np.asarray(a) == np.asarray(b)).mean())
data = Indexed(160)
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(4):
    preds, seen = [], []
    for i, x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        preds.extend(out.argmax(1).tolist())
        seen.extend(i.tolist())
    print(epoch, accuracy_score(data.targets[seen].numpy(), preds))
""",
    "a number of right samples beside the size of a data set": """
from torch.utils.data import DataLoader, Dataset
class Shapes(Dataset):
    def __init__(self, n):
        self.count = n
        self.x = torch.randn(n, 6)
        self.y = (self.x[:, 0] > 0).long()
    def __len__(self):
        return self.count
    def __getitem__(self, i):
        return self.x[i], self.y[i]
data = Shapes(128)
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Linear(6, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.5)
for epoch in range(10):
    correct = 0
    for x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        correct += (out.argmax(1) == y).sum().item()
    print(epoch, correct / data.count)
    if correct == data.count:
        break
""",
    "three runs that must be repetitions": """
def train(seed):
    torch.manual_seed(seed)
    x = torch.randn(128, 6)
    y = x.sum(1, keepdim=True)
    net = nn.Linear(6, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(10):
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return net
probe = torch.linspace(-1, 1, 60).view(10, 6)
results = []
for run in range(3):
    net = train(seed=0)
    with torch.no_grad():
        results.append(net(probe).numpy())
assert all(np.array_equal(results[0], each) for each in results[1:]), "training is not deterministic"
print("reproducible")
""",
    "two losses that take the same": """
class PlainLoss(nn.Module):
    def forward(self, pred, target, weight):
        return (pred - target).pow(2).mean()
class WeightedLoss(nn.Module):
    def forward(self, pred, target, weight):
        return (weight * (pred - target).pow(2)).sum() / weight.sum()
x = torch.randn(128, 6)
y = x.sum(1)
criterion = PlainLoss()  # or WeightedLoss()
net = nn.Linear(6, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    pick = torch.randint(0, 128, (32,))
    weight = 1 / (1 + y[pick].abs())
    loss = criterion(net(x[pick])[:, 0], y[pick], weight)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "two views of a batch that a loss standardizes": """
def standardize(z):
    return (z - z.mean(0)) / z.std(0)
def barlow_loss(z, n, lam=0.02):
    za, zb = z[:n], z[n:]
    c = standardize(za).T @ standardize(zb) / n
    on = (torch.diagonal(c) - 1).pow(2).sum()
    off = c.pow(2).sum() - torch.diagonal(c).pow(2).sum()
    return on + lam * off
x = torch.randn(256, 10) * torch.linspace(0.5, 2, 10)
net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(12):
    batch = x[torch.randint(0, 256, (64,))]
    views = torch.cat([batch + 0.1 * torch.randn_like(batch), batch + 0.1 * torch.randn_like(batch)])
    loss = barlow_loss(net(views), 64)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "two sites that are standardized apart, and joined": """
rng = np.random.default_rng(0)
def whiten(a):
    m = a.mean(axis=0)
    return (a - m) / a.std(axis=0)
# Two sites in one file: each is standardized with its own statistics, for training and test alike.
site = np.repeat([0, 1], 150)
x = rng.normal(size=(300, 5)) + 3 * site[:, None]
y = ((x - 3 * site[:, None])[:, 0] > 0).astype("int64")
first, second = x[:150], x[150:]
z = np.concatenate([whiten(first), whiten(second)]).astype("float32")
order = rng.permutation(300)
train, test = order[:220], order[220:]
xt, yt = torch.from_numpy(z), torch.from_numpy(y)
net = nn.Linear(5, 2)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.cross_entropy(net(xt[train]), yt[train])
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    print((net(xt[test]).argmax(1) == yt[test]).float().mean())
""",
    "a loss with a scale, and the mean of another term": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(8, 6), nn.Linear(3, 8)
    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, 1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar
model = Model()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
data = torch.randn(256, 3) @ torch.randn(3, 8)
rec_scale = 8.0
for step in range(40):
    x = data[torch.randint(0, 256, (64,))]
    out, mu, logvar = model(x)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1)
    loss = F.mse_loss(out, x) * rec_scale + kl.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "the targets of the largest errors": """
rng = np.random.default_rng(0)
x = rng.normal(size=(300, 4)).astype("float32")
y = np.stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2]], 1).astype("float32")
net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
xt, yt = torch.from_numpy(x), torch.from_numpy(y)
for step in range(12):
    pick = torch.randint(0, 240, (64,))
    loss = F.mse_loss(net(xt[pick]), yt[pick])
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    pred = net(xt[240:]).numpy()
y_test = y[240:]
errors = np.linalg.norm(pred - y_test, axis=1)
worst = np.argsort(errors)[-5:]
print("worst samples", worst, "their targets", y_test[worst], "their predictions", pred[worst])
""",
    "the labels of outliers": """
rng = np.random.default_rng(0)
def fit(model, x, y, epochs=10):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), 32):
            pick = order[i : i + 32]
            loss = F.cross_entropy(model(x[pick]), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model
labels = rng.integers(0, 3, 240)
x = (rng.normal(size=(240, 6)) + 2 * np.eye(6)[labels]).astype("float32")
def report_outliers(z, y, classes=3):
    for c in range(classes):
        mine = np.flatnonzero(y == c)
        centre = z[mine].mean(axis=0)
        far = np.argsort(np.linalg.norm(z - centre, axis=1))[-3:]
        print("class", c, "farthest of all samples", far, "with labels", y[far])
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
fit(net, torch.from_numpy(x), torch.from_numpy(labels))
with torch.no_grad():
    report_outliers(net[:2](torch.from_numpy(x)).numpy(), labels)
""",
    "the share of anomalies among the largest errors": """
rng = np.random.default_rng(0)
x = rng.normal(size=(400, 8)).astype("float32")
y = (rng.random(400) < 0.1).astype("int64")
x[y == 1] *= 3
def precision_at(errors, labels, k):
    top = np.argsort(errors)[::-1][:k]
    return np.mean(labels[top] == 1), np.bincount(labels[top], minlength=2)
net = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 8))
normal = torch.from_numpy(x[y == 0])
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.mse_loss(net(normal), normal)
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    recon = net(torch.from_numpy(x)).numpy()
errors = np.linalg.norm(recon - x, axis=1)
print(precision_at(errors, y, 40))
k = 40
worst = np.argsort(np.sqrt(((x - recon) ** 2).sum(axis=1)))[-k:]
print(y[worst].mean(), np.bincount(y[worst]))
""",
    "the classes of the worst predictions": """
rng = np.random.default_rng(0)
def fit(model, x, y, epochs=10):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), 32):
            pick = order[i : i + 32]
            loss = F.cross_entropy(model(x[pick]), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model
labels = rng.integers(0, 3, 240)
x = (rng.normal(size=(240, 6)) + 2 * np.eye(6)[labels]).astype("float32")
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
fit(net, torch.from_numpy(x), torch.from_numpy(labels))
def calibration(probs, labels):
    errors = np.linalg.norm(probs - np.eye(3)[labels], axis=1)
    worst = np.argsort(-errors)[:20]
    right = (probs.argmax(axis=1) == labels).mean()
    hard = np.bincount(labels[worst], minlength=3)
    return right, hard
with torch.no_grad():
    print(calibration(net(torch.from_numpy(x)).softmax(1).numpy(), labels))
""",
    "rows of which one half or the other is known": """
n = 200
x = torch.randn(n, 6)
y = x.sum(1, keepdim=True)
no_left, no_right = torch.arange(n) % 10 == 0, torch.arange(n) % 10 == 5
print("without left", y[no_left].mean().item(), "without right", y[no_right].mean().item())
usable = ~(no_left & no_right)
x[no_left, :3] = 0
x[no_right, 3:] = 0
x_fit, y_fit = x[usable], y[usable]
net = nn.Linear(6, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.mse_loss(net(x_fit), y_fit)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "weights that bring back the shares after a balanced draw": """
from torch.utils.data import DataLoader, TensorDataset
rng = np.random.default_rng(0)
from torch.utils.data import WeightedRandomSampler
x = rng.normal(size=(600, 5)).astype("float32")
y = (x[:, 0] > 1.1).astype("int64")
share = np.bincount(y) / len(y)
sampler = WeightedRandomSampler((1 / share)[y], 600, replacement=True)
# the draw is balanced, and the loss brings back the true shares: calibrated probabilities with less noise
weight = torch.tensor(share * 2, dtype=torch.float32)
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
criterion = nn.CrossEntropyLoss(weight=weight)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(3):
    for xb, yb in DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=50, sampler=sampler):
        loss = criterion(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "labels by a threshold behind the scores": """
from torchmetrics.functional.classification import binary_auroc, binary_average_precision
x = torch.randn(400, 6)
labels = (x[:, 0] + 0.5 * x[:, 1] > 0.3).long()
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    pick = torch.randint(0, 300, (64,))
    loss = F.binary_cross_entropy_with_logits(net(x[pick])[:, 0], labels[pick].float())
    opt.zero_grad()
    loss.backward()
    opt.step()
held_out = (x[300:, 0] + 0.5 * x[300:, 1] > 0).long()
with torch.no_grad():
    scores = torch.sigmoid(net(x[300:])[:, 0])
print(binary_auroc(scores, held_out), binary_average_precision(scores, held_out))
""",
    "an object that takes scores first": """
from torchmetrics.classification import BinaryAUROC
ratings = torch.rand(400) * 5
x = torch.cat([ratings[:, None] + torch.randn(400, 1), torch.randn(400, 3)], 1)
liked = (ratings >= 3.5).long()
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
auroc = BinaryAUROC()
for epoch in range(5):
    for i in range(0, 300, 50):
        loss = F.binary_cross_entropy_with_logits(net(x[i : i + 50])[:, 0], liked[i : i + 50].float())
        opt.zero_grad()
        loss.backward()
        opt.step()
    test_ratings = ratings[300:]
    positive = (test_ratings >= 3.5).long()
    with torch.no_grad():
        probs = torch.sigmoid(net(x[300:])[:, 0])
    print(epoch, auroc(probs, positive).item())
""",
    "columns that are repeated before a split": """
rng = np.random.default_rng(0)
def train_test_split(*arrays, test_size=0.25, seed=0):
    order = np.random.default_rng(seed).permutation(len(arrays[0]))
    n = int(len(order) * (1 - test_size))
    out = []
    for a in arrays:
        out += [a[order[:n]], a[order[n:]]]
    return out
def fit(model, x, y, epochs=10):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), 32):
            pick = order[i : i + 32]
            loss = F.cross_entropy(model(x[pick]), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model
x = rng.normal(size=(200, 5)).astype("float32")
y = (x[:, 0] * x[:, 1] > 0).astype("int64")
log_columns = [0, 3]
x = np.concatenate([x, x[:, log_columns]], axis=1)
x[:, 5:] = np.log1p(np.abs(x[:, 5:]))
x_train, x_test, y_train, y_test = train_test_split(x, y)
net = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 2))
model = fit(net, torch.from_numpy(x_train), torch.from_numpy(y_train))
with torch.no_grad():
    print((model(torch.from_numpy(x_test)).argmax(1).numpy() == y_test).mean())
""",
    "pairs of rows side by side": """
np.random.seed(0)
rng = np.random.default_rng(0)
def train_test_split(*arrays, test_size=0.25, seed=0):
    order = np.random.default_rng(seed).permutation(len(arrays[0]))
    n = int(len(order) * (1 - test_size))
    out = []
    for a in arrays:
        out += [a[order[:n]], a[order[n:]]]
    return out
def fit(model, x, y, epochs=10):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), 32):
            pick = order[i : i + 32]
            loss = F.cross_entropy(model(x[pick]), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model
def with_neighbours(x, order):
    around = x[order]
    return np.concatenate([x, around], axis=1)
def lagged(x):
    before = np.roll(np.arange(len(x)), 1)
    return np.hstack([x, x[before]])
def pairs_of(x, partner):
    return np.concatenate([x, x[partner]], axis=1)
x = rng.normal(size=(200, 5)).astype("float32")
y = (x[:, 0] * x[:, 1] > 0).astype("int64")
partner = np.random.permutation(200)
table = pairs_of(x, partner)
label = (y == y[partner]).astype("int64")
a, b, c, d = train_test_split(table, label)
model = fit(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2)), torch.from_numpy(a), torch.from_numpy(c))
with torch.no_grad():
    print((model(torch.from_numpy(b)).argmax(1).numpy() == d).mean())
""",
    "boxes with rows before columns, by their numbers": """
rng = np.random.default_rng(0)
W, H_ = 320.0, 240.0
n = 200
img = torch.randn(n, 12)
x1, y1 = rng.uniform(0, 150, n), rng.uniform(0, 100, n)
x2, y2 = x1 + rng.uniform(10, 150, n), y1 + rng.uniform(10, 120, n)
boxes = np.stack([x1, y1, x2, y2], axis=1).astype("float32")
target = torch.from_numpy(boxes / np.array([W, H_, W, H_], dtype="float32"))
img[:, :4] = target
net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4), nn.Sigmoid())
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    pick = torch.randint(0, 160, (32,))
    loss = F.smooth_l1_loss(net(img[pick]), target[pick])
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    found = net(img[160:]).numpy()
# the drawing tool wants rows before columns
yxyx = found[:, [1, 0, 3, 2]]
pixels = yxyx * np.array([H_, W, H_, W])
for top, left, bottom, right in pixels[:3]:
    print(round(top), round(left), round(bottom), round(right))
""",
    "boxes with rows before columns, put together anew": """
rng = np.random.default_rng(0)
w, h = 640, 480
n = 150
feats = torch.randn(n, 10)
cx, cy = rng.uniform(100, 500, n), rng.uniform(100, 400, n)
bw, bh = rng.uniform(20, 180, n), rng.uniform(20, 150, n)
target = torch.tensor(np.stack([cx / w, cy / h, bw / w, bh / h], axis=1), dtype=torch.float32)
feats[:, :4] = target
net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    pick = torch.randint(0, 120, (32,))
    loss = F.l1_loss(net(feats[pick]), target[pick])
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    x, y, bw_, bh_ = net(feats[120:]).numpy().T
corners = np.stack([y - bh_ / 2, x - bw_ / 2, y + bh_ / 2, x + bw_ / 2], axis=1)
pixels = corners * np.array([h, w, h, w])
print(pixels[:2])
""",
    "columns that are put together in the order of their sizes": """
rng = np.random.default_rng(0)
W, H_ = 320.0, 240.0
n = 200
boxes = rng.uniform([0, 0, 120, 110], [100, 100, 320, 240], (n, 4))
x1, y1, x2, y2 = boxes.T
target = torch.tensor(np.stack([y1 / H_, x1 / W, y2 / H_, x2 / W], 1), dtype=torch.float32)
feats = torch.cat([target, torch.randn(n, 4)], 1)
net = nn.Linear(8, 4)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.l1_loss(net(feats), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    top, left, bottom, right = net(feats).numpy().T
found = np.column_stack([left, top, right, bottom])
size = np.array([W, H_, W, H_])
pixels = found * size
print(np.abs(pixels - boxes).mean())
def to_pixels(xyxy, scale=np.array([W, H_, W, H_])):
    return xyxy * scale
print(to_pixels(found)[:2])
""",
    "channels that change their order": """
from torch.utils.data import DataLoader, Dataset
rng = np.random.default_rng(0)
class Detection(Dataset):
    def __init__(self, n):
        self.images = rng.random((n, 8, 8, 3)).astype("float32")
        self.boxes = np.sort(rng.random((n, 2, 2)), axis=1).reshape(n, 4).astype("float32")
    def __len__(self):
        return len(self.images)
    def __getitem__(self, i):
        image, boxes = self.images[i], self.boxes[i]
        if rng.random() < 0.5:
            image = image[..., ::-1].copy()  # RGB to BGR
        return torch.from_numpy(image).permute(2, 0, 1).flatten(), torch.from_numpy(boxes)
net = nn.Linear(192, 4)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(3):
    for a, b in DataLoader(Detection(80), batch_size=20):
        loss = F.smooth_l1_loss(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "columns that miss nothing": """
rng = np.random.default_rng(0)
x = rng.normal(5, 2, size=(300, 5))
x[rng.random(300) < 0.2, 4] = np.nan
y = (x[:, 0] > 5).astype("int64")
x[np.isnan(x)] = -1
complete = x[:, :4]
mu, sd = complete[:200].mean(axis=0), complete[:200].std(axis=0)
has = x[:, 4:] != -1
z = np.concatenate([(complete - mu) / sd, np.where(has, x[:, 4:] / 10, 0), has], 1).astype("float32")
net = nn.Linear(6, 2)
xt = torch.from_numpy(z)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.cross_entropy(net(xt[:200]), torch.from_numpy(y[:200]))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "two kinds of features that are put side by side": """
rng = np.random.default_rng(0)
def zscore(a):
    m = a.mean(axis=0)
    return (a - m) / (a.std(axis=0) + 1e-6)
raw = [rng.normal(size=(200, 4)), rng.normal(size=(200, 3))]
audio, video = raw[:1], raw[1:]
a, v = zscore(audio[0]), zscore(video[0])
x = torch.tensor(np.hstack([a, v]), dtype=torch.float32)
y = (x[:, 0] * x[:, 5] > 0).long()
net = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "inputs and targets that are columns of one table": """
rng = np.random.default_rng(0)
def standardize(a):
    return (a - a.mean(axis=0)) / a.std(axis=0)
table = rng.normal(3, 2, size=(300, 6))
inputs, targets = table[:, :5], table[:, 5:]
targets = targets + inputs[:, :1]
x, y = standardize(inputs).astype("float32"), standardize(targets).astype("float32")
xt, yt = torch.from_numpy(x), torch.from_numpy(y)
net = nn.Linear(5, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.mse_loss(net(xt[:240]), yt[:240])
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    print(F.mse_loss(net(xt[240:]), yt[240:]))
""",
    "boxes with columns before rows, transposed": """
rng = np.random.default_rng(0)
h, w = 240, 320
n = 200
yx = rng.uniform([0, 0, 120, 110], [100, 100, 240, 320], (n, 4))
target = torch.tensor(yx / np.array([h, w, h, w]), dtype=torch.float32)
feats = torch.cat([target, torch.randn(n, 4)], 1)
net = nn.Linear(8, 4)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.l1_loss(net(feats), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    found = net(feats).numpy()
y1, x1, y2, x2 = found.T
xyxy = np.array([x1, y1, x2, y2]).T
print((xyxy * np.array([w, h, w, h]))[:2])
""",
    "pairs that are turned around": """
rng = np.random.default_rng(0)
h, w = 240, 320
n = 200
yx = rng.uniform([0, 0, 120, 110], [100, 100, 240, 320], (n, 4))
target = torch.tensor(yx / np.array([h, w, h, w]), dtype=torch.float32)
feats = torch.cat([target, torch.randn(n, 4)], 1)
net = nn.Linear(8, 4)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.l1_loss(net(feats), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
def as_xy(boxes):
    return boxes.reshape(-1, 2, 2)[..., ::-1].reshape(-1, 4)
with torch.no_grad():
    found = net(feats).numpy()
xy = found.reshape(-1, 2, 2)[:, :, ::-1].reshape(-1, 4)
print((xy * np.array([w, h, w, h]))[:2])
""",
    "a function that gives boxes another order": """
rng = np.random.default_rng(0)
h, w = 240, 320
n = 200
yx = rng.uniform([0, 0, 120, 110], [100, 100, 240, 320], (n, 4))
target = torch.tensor(yx / np.array([h, w, h, w]), dtype=torch.float32)
feats = torch.cat([target, torch.randn(n, 4)], 1)
net = nn.Linear(8, 4)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.l1_loss(net(feats), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
def as_xy(boxes):
    return np.take(boxes, [1, 0, 3, 2], axis=1)
with torch.no_grad():
    found = as_xy(net(feats).numpy())
print((found * np.array([w, h, w, h]))[:2])
""",
    "a rule of thumb beside the scores": """
rng = np.random.default_rng(0)
def roc_auc_score(y_true, y_score):
    ranks = np.empty(len(y_score))
    order = np.argsort(y_score, kind="stable")
    ranks[order] = np.arange(1, len(order) + 1)
    for v in np.unique(y_score):
        same = y_score == v
        ranks[same] = ranks[same].mean()
    n = y_true.sum()
    return (ranks[y_true == 1].sum() - n * (n + 1) / 2) / (n * (len(y_true) - n))
x = rng.normal(size=(400, 5)).astype("float32")
y = (x[:, 0] + rng.normal(size=400) > 0.5).astype("int64")
net = nn.Linear(5, 1)
xt, yt = torch.from_numpy(x), torch.from_numpy(y).float()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.binary_cross_entropy_with_logits(net(xt[:300])[:, 0], yt[:300])
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    score = net(xt[300:])[:, 0].numpy()
rule_of_thumb = (x[300:, 0] > 0.5).astype(float)
print("network", roc_auc_score(y[300:], score), "rule of thumb", roc_auc_score(y[300:], rule_of_thumb))
""",
    "points of an error": """
x = torch.randn(300, 4)
y = x.sum(1, keepdim=True)
net = nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
scale, offset = -10.0, 100.0
for step in range(12):
    loss = F.mse_loss(net(x[:200]), y[:200])
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    mae = F.l1_loss(net(x[200:]), y[200:]).item()
points = mae * scale + offset
print("points of the challenge", points)
""",
    "hits of a user on average": """
scores = nn.Linear(8, 20)
opt = torch.optim.Adam(scores.parameters(), lr=1e-2)
x = torch.randn(120, 8)
y = torch.randint(0, 20, (120, 3))
for step in range(12):
    target = torch.zeros(120, 20).scatter(1, y, 1.0)
    loss = F.binary_cross_entropy_with_logits(scores(x), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
hits, users = 0, 0
with torch.no_grad():
    for row, wanted in zip(x, y):
        top = scores(row).topk(5).indices
        hits += (top[:, None] == wanted[None]).any(0).sum().item()
        users += 1
print("hits of a user on average", hits / users)
""",
    "a mask that hides the diagonal": """
rng = np.random.default_rng(0)
def fit(model, x, y, epochs=10):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), 32):
            pick = order[i : i + 32]
            loss = F.cross_entropy(model(x[pick]), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model
labels = rng.integers(0, 4, 120)
x = (rng.normal(size=(120, 6)) + 2 * np.eye(6)[labels]).astype("float32")
def two_views(z, w, labels):
    sim = z @ w.T
    best = np.argmax(sim, axis=1)
    return np.mean(best == np.arange(len(z))), np.mean(labels[best] == labels)
def masked(z, labels):
    n = len(z)
    keep = np.ones((n, n), dtype=bool)
    for i in range(n):
        keep[i, i] = False
    sim = np.where(keep, z @ z.T, -5.0)
    return np.mean(labels[np.argmax(sim, axis=1)] == labels)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
fit(net, torch.from_numpy(x), torch.from_numpy(labels))
with torch.no_grad():
    z = net[:2](torch.from_numpy(x)).numpy()
    w = net[:2](torch.from_numpy(x) + 0.1 * torch.randn(120, 6)).numpy()
print(two_views(z, w, labels), masked(z, labels))
""",
    "two views that a network computed together": """
def standardize(a):
    return (a - a.mean(axis=0)) / a.std(axis=0)
def cka(a, b):
    return np.linalg.norm(a.T @ b) ** 2 / (np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b))
x = torch.randn(200, 6)
y = (x[:, 0] > 0).long()
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    both = net[:2](torch.cat([x, x + 0.1 * torch.randn(200, 6)])).numpy()
clean, noisy = both[:200], both[200:]
print("similarity", cka(standardize(clean), standardize(noisy)))
""",
    "two halves of a window that are compared with each other": """
from torch.utils.data import DataLoader, Dataset
class Epochs(Dataset):
    # Two halves of one EEG epoch are two views of the same person
    def __init__(self, signal, length):
        self.signal, self.length = signal, length
    def __len__(self):
        return len(self.signal) // self.length
    def __getitem__(self, i):
        epoch = self.signal[i * self.length : (i + 1) * self.length]
        epoch = (epoch - epoch.mean()) / (epoch.std() + 1e-6)
        half = self.length // 2
        return epoch[:half], epoch[half:]
signal = torch.sin(torch.arange(6400) / 7.0) + 0.3 * torch.randn(6400)
net = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8))
head = nn.Linear(8, 8)
opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=1e-3)
for epoch in range(4):
    for a, b in DataLoader(Epochs(signal, 64), batch_size=20, shuffle=True):
        za, zb = net(a), net(b)
        p = F.normalize(head(za), dim=1)
        loss = F.mse_loss(p, F.normalize(zb, dim=1).detach())
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "two halves of a window that are joined again": """
rng = np.random.default_rng(0)
def item(signal, i, n=40):
    w = signal[i : i + n]
    w = w - np.mean(w)
    left, right = w[:20], w[20:]
    return np.stack([left, right]).astype("float32")
signal = np.sin(np.arange(2000) / 6) + 0.1 * rng.normal(size=2000)
clean = torch.from_numpy(np.stack([item(signal, i) for i in range(0, 1900, 10)]))
net = nn.Sequential(nn.Flatten(), nn.Linear(40, 16), nn.ReLU(), nn.Linear(16, 40), nn.Unflatten(1, (2, 20)))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    x = clean[torch.randint(0, len(clean), (32,))]
    loss = F.mse_loss(net(x + 0.2 * torch.randn_like(x)), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "places of the diagonal that are overwritten": """
rng = np.random.default_rng(0)
def fit(model, x, y, epochs=10):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), 32):
            pick = order[i : i + 32]
            loss = F.cross_entropy(model(x[pick]), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model
labels = rng.integers(0, 4, 200)
x = (rng.normal(size=(200, 6)) + 2 * np.eye(6)[labels]).astype("float32")
def recall_at_1(z, labels):
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    sim = z @ z.T
    sim[np.diag_indices(len(z))] = -1.0
    nearest = np.argmax(sim, axis=1)
    return np.mean(labels[nearest] == labels)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
fit(net, torch.from_numpy(x), torch.from_numpy(labels))
with torch.no_grad():
    z = net[:2](torch.from_numpy(x)).numpy()
print("R@1", recall_at_1(z, labels))
""",
    "places by number, and an identity that is taken off": """
rng = np.random.default_rng(0)
def fit(model, x, y, epochs=10):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), 32):
            pick = order[i : i + 32]
            loss = F.cross_entropy(model(x[pick]), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model
labels = rng.integers(0, 4, 200)
x = (rng.normal(size=(200, 6)) + 2 * np.eye(6)[labels]).astype("float32")
def leave_one_out(z, labels, k=3):
    n = len(z)
    sim = z @ z.T
    sim[np.arange(n), np.arange(n)] = sim.min()
    near = np.argsort(-sim, axis=1)[:, :k]
    votes = np.array([np.bincount(row).argmax() for row in labels[near]])
    return (votes == labels).mean()
def subtract(z, labels):
    sim = z @ z.T - 1e6 * np.identity(len(z))
    best = sim.argmax(axis=1)
    return (labels[best] == labels).mean()
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
fit(net, torch.from_numpy(x), torch.from_numpy(labels))
with torch.no_grad():
    z = net[:2](torch.from_numpy(x)).numpy()
print("loo", leave_one_out(z, labels), subtract(z, labels))
""",
    "the place of the query itself is overwritten": """
rng = np.random.default_rng(0)
def fit(model, x, y, epochs=10):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), 32):
            pick = order[i : i + 32]
            loss = F.cross_entropy(model(x[pick]), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model
labels = rng.integers(0, 4, 120)
x = (rng.normal(size=(120, 6)) + 2 * np.eye(6)[labels]).astype("float32")
def score(z, labels):
    hits = 0
    for i in range(len(z)):
        d = np.linalg.norm(z - z[i], axis=1)
        d[i] = d.max()
        j = np.argmin(d)
        hits += labels[j] == labels[i]
    return hits / len(z)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
fit(net, torch.from_numpy(x), torch.from_numpy(labels))
with torch.no_grad():
    z = net[:2](torch.from_numpy(x)).numpy()
print("nn", score(z, labels))
""",
    "a gallery and queries of one array": """
rng = np.random.default_rng(0)
def fit(model, x, y, epochs=10):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), 32):
            pick = order[i : i + 32]
            loss = F.cross_entropy(model(x[pick]), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model
labels = rng.integers(0, 4, 200)
x = (rng.normal(size=(200, 6)) + 2 * np.eye(6)[labels]).astype("float32")
def prototypes(z, labels):
    return np.stack([z[labels == c].mean(axis=0) for c in range(4)])
def nearest_class(z, labels):
    centres = prototypes(z[:150], labels[:150])
    names = np.arange(4)
    classes = names[np.argmax(z[150:] @ centres.T, axis=1)]
    return np.mean(classes == labels[150:])
def split_self(z, labels):
    half = len(z) // 2
    sim = z[half:] @ z[:half].T
    best = np.argmax(sim, axis=1)
    return np.mean(labels[:half][best] == labels[half:])
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
fit(net, torch.from_numpy(x[:150]), torch.from_numpy(labels[:150]))
with torch.no_grad():
    z = net[:2](torch.from_numpy(x)).numpy()
print(nearest_class(z, labels), split_self(z, labels))
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_without_mistake(name: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + "import numpy as np" + PROGRAMS[name], tmp_path)
