"""What is computed of the values of the first batch, and kept for all later ones: by a shape or a flag; and what may be
kept so."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.analysis.check.checker import check_case
from gradviz.analysis.rules import RULES
from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm, recorded

CAUSE = "kept_of_other_batch"

CLOUDS = """
def clouds(n=12, points=20):
    y = torch.randint(3, (n,))
    x = torch.randn(n, points, 3)
    return torch.stack([x, F.normalize(x, dim=-1), x.abs()], 1)[torch.arange(n), y], y
def nearest(x):
    return torch.cdist(x, x).topk(5, largest=False).indices
def gather(h, index):
    b, n, k = index.shape
    return h.gather(1, index.reshape(b, n * k, 1).expand(-1, -1, h.shape[-1])).view(b, n, k, -1)
class Conv(nn.Module):
    def __init__(self, wide, out):
        super().__init__()
        self.layer = nn.Linear(2 * wide, out)
    def forward(self, h, index):
        near = gather(h, index)
        centre = h[:, :, None].expand_as(near)
        return self.layer(torch.cat([centre, near - centre], -1)).amax(2)
class Net(nn.Module):
    def __init__(self, search):
        super().__init__()
        self.search = search
        self.a, self.b, self.out = Conv(3, 8), Conv(8, 8), nn.Linear(8, 3)
    def forward(self, x):
        h = F.relu(self.a(x, self.search(x)))
        return self.out(F.relu(self.b(h, self.search(x))).amax(1))
def train(model, batches):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for x, y in batches:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
NEW = "\ntrain(Net(search), (clouds() for _ in range(8)))\n"

TEXTS = """
table = torch.randint(1, 20, (96, 9))
table[torch.arange(9)[None] >= torch.randint(4, 10, (96, 1))] = 0
labels = torch.randint(2, (96,))
class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.score, self.out = nn.Embedding(20, 8), nn.Linear(8, 1), nn.Linear(8, 2)
        self.kept = None
    def forward(self, ids):
        h = self.embed(ids)
        weights = self.score(h).squeeze(-1).masked_fill(self.hidden(ids), -1e4).softmax(1)
        return self.out((weights[..., None] * h).sum(1))
"""
LOOP = """
model = Pool()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    for rows in torch.randperm(96).split(16):
        loss = F.cross_entropy(model(table[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

WRONG = {
    "a method of a class with a key of shapes": CLOUDS
    + """
class Search:
    def __init__(self):
        self.table = {}
    def __call__(self, x):
        key = (tuple(x.shape), x.dtype)  # HERE
        if key not in self.table:
            self.table[key] = nearest(x)
        return self.table[key]
search = Search()
"""
    + NEW,
    "a variable of a module that is None": CLOUDS
    + """
KEPT = None
def search(x):
    global KEPT
    if KEPT is None:  # HERE
        KEPT = nearest(x)
    return KEPT
"""
    + NEW,
    "a decorator that looks at shapes": CLOUDS
    + """
def by_shape(function):
    kept = {}
    def inner(x):
        if x.shape not in kept:  # HERE
            kept[x.shape] = function(x)
        return kept[x.shape]
    return inner
search = by_shape(nearest)
"""
    + NEW,
    "a decorated function of a size": CLOUDS
    + """
import functools
class Search:
    @functools.lru_cache(maxsize=None)  # HERE
    def of_size(self, n):
        return nearest(self.x)
    def __call__(self, x):
        self.x = x
        return self.of_size(len(x))
search = Search()
"""
    + NEW,
    "setdefault": CLOUDS
    + """
kept = {}
def search(x):
    return kept.setdefault(x.shape[1], nearest(x))  # HERE
"""
    + NEW,
    "an early return": CLOUDS
    + """
kept = {}
def search(x):
    if len(x) in kept:  # HERE
        return kept[len(x)]
    kept[len(x)] = nearest(x)
    return kept[len(x)]
"""
    + NEW,
    "the missing key": CLOUDS
    + """
kept = {}
def search(x):
    try:  # HERE
        return kept[x.shape]
    except KeyError:
        kept[x.shape] = nearest(x)
        return kept[x.shape]
"""
    + NEW,
    "the first turn of a loop": CLOUDS
    + """
model = Net(lambda x: index)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(8):
    x, y = clouds()
    if step == 0:  # HERE
        index = nearest(x)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "rows of all clouds in one axis": CLOUDS
    + """
class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.out, self.index = nn.Linear(6, 8), nn.Linear(8, 3), None
    def forward(self, x):
        b, n, _ = x.shape
        if not hasattr(self, "index") or self.index is None:  # HERE
            self.index = nearest(x)
        base = torch.arange(b).view(-1, 1, 1) * n
        near = x.reshape(b * n, -1)[(self.index + base).view(-1)].view(b, n, 5, 3)
        centre = x[:, :, None].expand_as(near)
        return self.out(F.relu(self.layer(torch.cat([near - centre, centre], -1))).amax((1, 2)))
train(Flat(), (clouds() for _ in range(8)))
""",
    "masks of padding": TEXTS
    + """
    def hidden(self, ids):
        if self.kept is None:  # HERE
            self.kept = ids == 0
        return self.kept
"""
    + LOOP,
    "distances as features": CLOUDS
    + """
class Radial(nn.Module):
    def __init__(self):
        super().__init__()
        self.filter, self.value, self.out, self.kept = nn.Linear(6, 8), nn.Linear(3, 8), nn.Linear(8, 3), {}
    def forward(self, x):
        if x.shape not in self.kept:  # HERE
            d = torch.cdist(x, x)
            self.kept[x.shape] = torch.exp(-(d[..., None] - torch.arange(6.0)) ** 2)
        w = self.filter(self.kept[x.shape])
        return self.out((w * self.value(x)[:, None]).sum(2).relu().mean(1))
train(Radial(), (clouds() for _ in range(8)))
""",
    "what one network was tried with before": CLOUDS
    + """
class Radial(nn.Module):
    def __init__(self):
        super().__init__()
        self.filter, self.value, self.out = nn.Linear(1, 8), nn.Linear(3, 8), nn.Linear(8, 3)
    def forward(self, x):
        if not hasattr(self, "far"):  # HERE
            self.far = (x[:, :, None] - x[:, None]).norm(dim=-1)
        w = self.filter(torch.exp(-self.far)[..., None])
        return self.out((w * self.value(x)[:, None]).sum(2).relu().mean(1))
model = Radial()
with torch.no_grad():
    print(model(clouds()[0]).shape)
train(model, (clouds() for _ in range(8)))
""",
    "neighbours of one cloud after the other": CLOUDS
    + """
kept = {}
def search(x):
    if len(x) not in kept:  # HERE
        kept[len(x)] = torch.stack([nearest(each) for each in x])
    return kept[len(x)]
"""
    + NEW,
    "an order in a buffer": """
class Sorted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.is_ready = nn.Linear(9, 1), False
        self.register_buffer("order", torch.zeros(16, 9, dtype=torch.long))
    def forward(self, x):
        if not self.is_ready:  # HERE
            self.order.copy_(x.argsort(dim=1))
            self.is_ready = True
        return self.layer(x.gather(1, self.order))
model = Sorted()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(8):
    x = torch.randn(16, 9)
    loss = (model(x) - x.amax(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a weight of each sample": """
data, wanted = torch.randn(96, 6), torch.randn(96, 1)
model = nn.Linear(6, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
weights = None
for epoch in range(3):
    for rows in torch.randperm(96).split(16):
        x, y = data[rows], wanted[rows]
        errors = (model(x) - y).square().squeeze(1)
        if weights is None:  # HERE
            weights = 1 / (0.1 + x.norm(dim=1))
        loss = (weights * errors).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
}

HEALTHY = {
    "made for each batch": CLOUDS + "search = nearest\n" + NEW,
    "the same clouds at each step": CLOUDS
    + """
kept = {}
def search(x):
    if x.shape not in kept:
        kept[x.shape] = nearest(x)
    return kept[x.shape]
batch = clouds()
train(Net(search), (batch for _ in range(8)))
""",
    "the same clouds with noise": CLOUDS
    + """
kept = {}
def search(x):
    if x.shape not in kept:
        kept[x.shape] = nearest(x)
    return kept[x.shape]
x, y = clouds()
train(Net(search), ((x + 0.01 * torch.randn_like(x), y) for _ in range(8)))
""",
    "clouds that move on": CLOUDS
    + """
kept = {}
def search(x):
    if x.shape not in kept:
        kept[x.shape] = nearest(x)
    return kept[x.shape]
def moving():
    x, y = clouds()
    for _ in range(8):
        yield x, y
        x = x + 0.02 * torch.randn_like(x)
train(Net(search), moving())
""",
    "by the number of batches in order": CLOUDS
    + """
kept = {}
batches = [clouds() for _ in range(3)]
def numbered():
    global number
    for _ in range(4):
        for number, (x, y) in enumerate(batches):
            yield x + 0.01 * torch.randn(x.shape), y
def search(x):
    if number not in kept:
        kept[number] = nearest(x)
    return kept[number]
train(Net(search), numbered())
""",
    "by the index of the sample": CLOUDS
    + """
kept = {}
all_x, all_y = clouds(48)
def drawn():
    global rows
    for _ in range(4):
        for rows in torch.randperm(48).split(12):
            yield all_x[rows], all_y[rows]
def search(x):
    for row, own in zip(rows.tolist(), x):
        if row not in kept:
            kept[row] = nearest(own[None])[0]
    return torch.stack([kept[row] for row in rows.tolist()])
train(Net(search), drawn())
""",
    "one mesh with values that change": CLOUDS
    + """
mesh = torch.randn(20, 3)
kept = {}
def search(x):
    if "graph" not in kept:
        kept["graph"] = nearest(mesh[None])
    return kept["graph"].expand(len(x), -1, -1)
def states():
    for _ in range(8):
        values = torch.randn(12, 20, 1)
        yield torch.cat([mesh[None, :, :2].expand(12, -1, -1), values], -1), values.mean((1, 2)).gt(0).long()
train(Net(search), states())
""",
    "the coordinates of a mesh in each batch": CLOUDS
    + """
mesh = torch.randn(20, 2)
kept = {}
def search(x):
    if x.shape not in kept:
        kept[x.shape] = nearest(x[..., :2])
    return kept[x.shape]
def states():
    for _ in range(8):
        values = torch.randn(12, 20, 1)
        yield torch.cat([mesh.expand(12, -1, -1), values], -1), values.mean((1, 2)).gt(0).long()
train(Net(search), states())
""",
    "a causal mask by the shape": TEXTS
    + """
    def hidden(self, ids):
        if self.kept is None:
            self.kept = torch.zeros_like(ids).cumsum(1).add(torch.arange(9)).gt(6)
        return self.kept
"""
    + LOOP,
    "positions expanded as a batch": TEXTS
    + """
    def hidden(self, ids):
        if self.kept is None:
            self.kept = torch.arange(9).expand_as(ids).to(ids.device) > 6
        return self.kept
"""
    + LOOP,
    "a mean and a scale of the first batch": """
class Act(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift, self.scale, self.ready = nn.Parameter(torch.zeros(16)), nn.Parameter(torch.ones(16)), False
    def forward(self, x):
        if not self.ready:
            with torch.no_grad():
                self.shift.copy_(-x.mean(0))
                self.scale.copy_(1 / x.std(0))
            self.ready = True
        return (x + self.shift) * self.scale
model = nn.Sequential(Act(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
white = None
for step in range(8):
    x = torch.randn(16, 16) * 3 + 1
    if white is None:
        mean, white = x.mean(0), torch.linalg.inv((x.T @ x) / 16 + torch.eye(16))
    loss = (model((x - mean) @ white) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a codebook and a probe of the first batch": """
encoder, decoder = nn.Linear(6, 4), nn.Linear(4, 6)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.01)
book = probe = None
for step in range(8):
    x = torch.randn(16, 6)
    if book is None:
        book, probe = F.normalize(x[torch.randperm(16)], dim=1), x.clone()
    near = torch.cdist(F.normalize(x, dim=1), book).argmin(1)
    h = encoder(x)
    loss = (decoder(h) - x).square().mean() + 0.1 * (decoder(encoder(book[near])) - x).square().mean()
    loss = loss + 0.01 * torch.cdist(h, encoder(probe)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "latent noise and queues": """
generator, judge = nn.Linear(4, 6), nn.Linear(6, 4)
optimizer = torch.optim.Adam([*generator.parameters(), *judge.parameters()], lr=0.01)
fixed, queue = None, []
for step in range(12):
    x = torch.randn(16, 6)
    if fixed is None:
        fixed = torch.randn(len(x), 4)
    queue = [F.normalize(x, dim=1), *queue][:6]
    h = judge(x)
    loss = (generator(h) - x).square().mean() + 0.01 * (generator(fixed) ** 2).mean()
    loss = loss + 0.01 * (judge(torch.cat(queue)) @ h.T).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "series that go on": """
series = torch.randn(16, 120).cumsum(1)
model = nn.Linear(10, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scale = None
for start in range(0, 100, 10):
    x, y = series[:, start:start + 10], series[:, start + 10:start + 11]
    if scale is None:
        scale = x.std(1, keepdim=True)
    loss = (model(x / scale) - y / scale).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "the same samples with noise of the data set": """
import numpy
clean = numpy.random.default_rng(0).normal(size=(16, 5)).astype("float32")
model = nn.Linear(5, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
kept = {}
for step in range(8):
    x = torch.from_numpy(clean + numpy.float32(0.01) * numpy.random.randn(16, 5).astype("float32"))
    y = torch.from_numpy(clean[:, :1].copy())
    if 0 not in kept:
        kept[0] = 1 / (0.1 + x.norm(dim=1, keepdim=True))
    loss = F.mse_loss(model(x) * kept[0], y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "where each episode began": """
import numpy
policy = nn.Linear(3, 2)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for episode in range(3):
    place = numpy.random.randn(8, 3).astype("float32")
    for step in range(6):
        seen = torch.from_numpy(place.copy())
        far = seen.norm(dim=1)
        if step == 0:
            start = far + 0.1
        chosen = policy(seen).log_softmax(1)
        loss = -(chosen[:, 0] * ((start - far) / start)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        place = place * numpy.float32(0.9)
""",
    "a distance to the distribution of the first batch": """
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
first = None
for step in range(8):
    x = torch.randn(16, 4)
    if first is None:
        first = x.sum(1).sort().values
    p = model(x).squeeze(1)
    loss = (p - x[:, 0]).square().mean() + (p.sort().values - first).square().mean()
    print((x.sum(1).sort().values - first).abs().mean())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a scale for each channel of single clips": """
conv = nn.Conv1d(4, 4, 3, padding=1)
optimizer = torch.optim.Adam(conv.parameters(), lr=0.01)
scale = None
for step in range(8):
    clip = torch.randn(4, 40) * torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None]
    if scale is None:
        scale = clip.std(1, keepdim=True)
    loss = (conv(clip / scale) - clip / scale).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a scale for each feature, with samples in columns": """
weight = nn.Parameter(torch.randn(3, 6))
optimizer = torch.optim.Adam([weight], lr=0.01)
scale = None
for step in range(8):
    x = torch.randn(6, 30)
    if scale is None:
        scale = x.std(1, keepdim=True)
    loss = (weight @ (x / scale) - x[:3] / scale[:3]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a graph of the same sensors": """
layer = nn.Linear(6, 3)
optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
near = None
for step in range(8):
    x = torch.randn(20, 3)
    if near is None:
        near = torch.cdist(x, x).topk(4, largest=False).indices
    loss = (layer(torch.cat([x[near].mean(1), x], 1)) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "returns of a rollout": """
policy = nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for turn in range(3):
    states, actions, rewards = torch.randn(16, 4), torch.randint(2, (16,)), torch.randn(16)
    returns = rewards.flip(0).cumsum(0).flip(0)
    returns = (returns - returns.mean()) / returns.std()
    for epoch in range(5):
        chosen = policy(states).log_softmax(1).gather(1, actions[:, None]).squeeze(1)
        loss = -(chosen * returns).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
}


@pytest.mark.parametrize("shape", list(WRONG))
def test_what_is_kept_of_the_first_batch_is_told(shape: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + WRONG[shape], CAUSE, tmp_path)


def test_it_is_told_in_the_file_that_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "kept_tables.py").write_text("""
KEPT = {}
def table(x, make):
    if x.shape not in KEPT:
        KEPT[x.shape] = make(x)
    return KEPT[x.shape]
""")
    script = HEAD + CLOUDS + "from kept_tables import table\nsearch = lambda x: table(x, nearest)\n" + NEW
    (found,) = (each for each in check_case(recorded(script, tmp_path), RULES).findings if each.cause == CAUSE)
    assert found.location is not None
    assert (Path(found.location.file).name, found.location.line) == ("kept_tables.py", 4)
    assert "for the first batch, of shape (12, 20, 5)" in found.message
    assert "7 later steps" in found.message


@pytest.mark.parametrize("look", list(HEALTHY))
def test_what_belongs_to_all_batches_raises_no_alarm(look: str, tmp_path: Path) -> None:
    found = [f"{each.cause}: {each.message}" for each in alarms(HEAD + HEALTHY[look], tmp_path)]
    assert [each for each in found if each.startswith(CAUSE)] == []
