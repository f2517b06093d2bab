"""Orders of rows, risk sets, counts of classes and banks of keys in other spellings, and what looks like them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FAULTS = {
    "views of samples that were looked up twice": (
        "rows_grouped_otherwise",
        """\
f = nn.Sequential(nn.Linear(6, 4))
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
data = torch.randn(40, 6)
for step in range(4):
    rows = torch.randperm(40)[:10]
    a, b = f(data[rows] + 0.1 * torch.randn(10, 6)), f(data[rows] + 0.1 * torch.randn(10, 6))
    z = F.normalize(torch.cat([a, b]), dim=1)  # HERE
    scores = (z @ z.T / 0.2).masked_fill(torch.eye(20, dtype=torch.bool), -1e9)
    loss = F.cross_entropy(scores, torch.arange(20) ^ 1)"""
        + TRAIN,
    ),
    "views that were cut from one batch, stacked sample by sample": (
        "rows_grouped_otherwise",
        """\
f = nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
data = torch.randn(40, 6)
for rows in torch.randperm(40).split(10):
    x = data[rows]
    both = F.normalize(f(torch.cat([x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)])), dim=1)
    a, b = both[:10], both[10:]
    z = torch.stack([a, b], 1).view(20, 4)  # HERE
    scores = (z @ z.T / 0.2).masked_fill(torch.eye(20, dtype=torch.bool), -1e9)
    loss = F.cross_entropy(scores, (torch.arange(20) + 10) % 20)"""
        + TRAIN,
    ),
    "shares that are looked up with the labels": (
        "rare_class_weighs_less",
        """\
f = nn.Linear(6, 3)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
y = torch.tensor([0] * 30 + [1] * 8 + [2] * 2)
x = torch.randn(40, 6)
counts = torch.bincount(y, minlength=3).float()
table = (counts / counts.max()).sqrt()  # HERE
for step in range(3):
    rows = torch.randint(40, (16,))
    each = F.cross_entropy(f(x[rows]), y[rows], reduction="none")
    loss = torch.dot(table.index_select(0, y[rows]), each) / 16"""
        + TRAIN,
    ),
    "counts of one-hot labels in the argument of a loss": (
        "rare_class_weighs_less",
        """\
f = nn.Linear(6, 3)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
y = torch.tensor([0] * 30 + [1] * 8 + [2] * 2)
x = torch.randn(40, 6)
counts = F.one_hot(y, 3).sum(0).float()
weight = F.normalize(counts, p=1, dim=0)  # HERE
for step in range(3):
    rows = torch.randint(40, (16,))
    loss = F.cross_entropy(f(x[rows]), y[rows], weight)"""
        + TRAIN,
    ),
    "the reciprocal of a reciprocal": (
        "rare_class_weighs_less",
        """\
f = nn.Linear(6, 3)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
y = torch.tensor([0] * 30 + [1] * 8 + [2] * 2)
x = torch.randn(40, 6)
rarity = 40 / torch.bincount(y, minlength=3)
weight = 3 / rarity  # HERE
for step in range(3):
    rows = torch.randint(40, (16,))
    log_p = f(x[rows]).log_softmax(1)
    loss = -(weight[y[rows]] * log_p[torch.arange(16), y[rows]]).mean()"""
        + TRAIN,
    ),
    "a product with a triangle of ones": (
        "risk_set_not_sorted",
        """\
f = nn.Linear(5, 1)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
t = torch.rand(40).sort(descending=True).values
x, e = torch.randn(40, 5), (torch.rand(40) < 0.6).float()
for rows in torch.randperm(40).split(10):
    s = f(x[rows])[:, 0]
    at_risk = torch.log(torch.tril(torch.ones(10, 10)) @ s.exp())  # HERE
    loss = ((at_risk - s) * e[rows]).sum() / e[rows].sum().clamp(min=1)"""
        + TRAIN,
    ),
    "a logsumexp over a triangle": (
        "risk_set_not_sorted",
        """\
f = nn.Linear(5, 1)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
t = torch.rand(40).sort(descending=True).values
x, e = torch.randn(40, 5), (torch.rand(40) < 0.6).float()
later = torch.ones(10, 10, dtype=torch.bool).triu(1)
for rows in torch.randperm(40).split(10):
    s = f(x[rows])[:, 0]
    table = s.expand(10, 10).masked_fill(later, -torch.inf)
    terms = s - table.logsumexp(1)  # HERE
    loss = -(terms * e[rows]).sum() / e[rows].sum().clamp(min=1)"""
        + TRAIN,
    ),
    "a triangle of ones after an ascending sort": (
        "risk_set_reversed",
        """\
f = nn.Linear(5, 1)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
t = torch.rand(40)
x, e = torch.randn(40, 5), (torch.rand(40) < 0.6).float()
for rows in torch.randperm(40).split(10):
    order = t[rows].argsort()  # HERE
    s, event = f(x[rows])[:, 0][order], e[rows][order]
    loss = ((torch.mv(torch.ones(10, 10).tril(), s.exp()).log() - s) * event).sum() / event.sum().clamp(min=1)"""
        + TRAIN,
    ),
    "kinds of events that stay where they were": (
        "sorted_apart",
        """\
f, e, g = nn.GRU(4, 8, batch_first=True), nn.Embedding(3, 2), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*f.parameters(), *e.parameters(), *g.parameters()], lr=0.01)
T, V, K, Y = torch.rand(40, 6), torch.rand(40, 6), torch.randint(0, 3, (40, 6)), torch.rand(40)
for rows in torch.randperm(40).split(10):
    t, v, k = T[rows], V[rows], K[rows]
    order = t.argsort(1)
    t = t.gather(1, order)
    v = v.gather(1, order)  # HERE
    steps = torch.cat([t[..., None], v[..., None], e(k)], -1)
    loss = (g(f(steps)[1][0])[:, 0] - Y[rows]).square().mean()"""
        + TRAIN,
    ),
    "values that are stacked beside sorted times": (
        "sorted_apart",
        """\
f, g = nn.GRU(2, 8, batch_first=True), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=0.01)
T, V, Y = torch.rand(40, 6), torch.rand(40, 6), torch.rand(40)
for rows in torch.randperm(40).split(10):
    t, order = T[rows].sort(dim=1)  # HERE
    steps = torch.stack((t, V[rows]), dim=2)
    loss = (g(f(steps)[1][0])[:, 0] - Y[rows]).square().mean()"""
        + TRAIN,
    ),
    "sums of exponentials": (
        "positive_among_negatives",
        """\
f, slow = nn.Linear(6, 4), nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
bank = F.normalize(torch.randn(32, 4), dim=1)
for step in range(3):
    x = torch.randn(8, 6)
    q = F.normalize(f(x), dim=1)
    k = F.normalize(slow(x + 0.1), dim=1).detach()
    bank[8 * step : 8 * step + 8] = k  # HERE
    same = ((q * k).sum(1) / 0.2).exp()
    rest = (q @ bank.T / 0.2).exp().sum(1)
    loss = -(same / (same + rest)).log().mean()"""
        + TRAIN,
    ),
}
HEALTHY = {
    "views of samples that were looked up twice, in their order": """\
f = nn.Sequential(nn.Linear(6, 4))
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
data = torch.randn(40, 6)
for step in range(4):
    one = other = torch.randperm(40)[:10]
    a, b = f(data[one] + 0.1 * torch.randn(10, 6)), f(data[other] + 0.1 * torch.randn(10, 6))
    z = F.normalize(torch.cat([a, b]), dim=1)
    scores = (z @ z.T / 0.2).masked_fill(torch.eye(20, dtype=torch.bool), -1e9)
    loss = F.cross_entropy(scores, (torch.arange(20) + 10) % 20)"""
    + TRAIN,
    "two parts of a batch, of which each has its pairs side by side": """\
f = nn.Sequential(nn.Linear(6, 4))
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
data = torch.randn(40, 6)
for step in range(4):
    one, other = (torch.randperm(40)[:5].repeat_interleave(2) for _ in range(2))
    a, b = f(data[one] + 0.1 * torch.randn(10, 6)), f(data[other] + 0.1 * torch.randn(10, 6))
    z = F.normalize(torch.cat([a, b]), dim=1)
    scores = (z @ z.T / 0.2).masked_fill(torch.eye(20, dtype=torch.bool), -1e9)
    loss = F.cross_entropy(scores, torch.arange(20) ^ 1)"""
    + TRAIN,
    "views that were cut from one batch, one after the other": """\
f = nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
data = torch.randn(40, 6)
for rows in torch.randperm(40).split(10):
    x = data[rows]
    both = F.normalize(f(torch.cat([x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)])), dim=1)
    a, b = both.chunk(2)
    z = torch.cat([a, b])
    scores = (z @ z.T / 0.2).masked_fill(torch.eye(20, dtype=torch.bool), -1e9)
    loss = F.cross_entropy(scores, torch.arange(20).roll(10))"""
    + TRAIN,
    "views that were cut from one batch, stacked, with labels for that": """\
f = nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
data = torch.randn(40, 6)
for rows in torch.randperm(40).split(10):
    x = data[rows]
    both = F.normalize(f(torch.cat([x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)])), dim=1)
    z = torch.stack(both.chunk(2), 1).flatten(0, 1)
    scores = (z @ z.T / 0.2).fill_diagonal_(-1e9)
    loss = F.cross_entropy(scores, torch.arange(20) ^ 1)"""
    + TRAIN,
    "weights by the reciprocal of effective numbers": """\
f = nn.Linear(6, 3)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
y = torch.tensor([0] * 30 + [1] * 8 + [2] * 2)
x = torch.randn(40, 6)
weight = (1 - 0.9) / (1 - 0.9 ** torch.bincount(y, minlength=3))
weight = weight * (3 / weight.sum())
for step in range(3):
    rows = torch.randint(40, (16,))
    each = F.cross_entropy(f(x[rows]), y[rows], reduction="none")
    loss = (weight.take(y[rows]) * each).mean()"""
    + TRAIN,
    "rows that stand for several samples": """\
f = nn.Linear(6, 3)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
cells = torch.randint(0, 8, (200,))
counts = torch.bincount(cells, minlength=8).float()
x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
for step in range(3):
    rows = torch.randint(8, (4,))
    each = F.cross_entropy(f(x[rows]), y[rows], reduction="none")
    loss = (counts[rows] * each).sum() / counts[rows].sum()"""
    + TRAIN,
    "logits that are adjusted by the frequencies": """\
f = nn.Linear(6, 3)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
y = torch.tensor([0] * 30 + [1] * 8 + [2] * 2)
x = torch.randn(40, 6)
prior = torch.bincount(y, minlength=3) / 40
for step in range(3):
    rows = torch.randint(40, (16,))
    loss = F.cross_entropy(f(x[rows]) + prior.log(), y[rows])"""
    + TRAIN,
    "a product with risk sets by times": """\
f = nn.Linear(5, 1)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
t = torch.rand(40)
x, e = torch.randn(40, 5), (torch.rand(40) < 0.6).float()
for rows in torch.randperm(40).split(10):
    s = f(x[rows])[:, 0]
    later = (t[rows][None, :] >= t[rows][:, None]).float()
    loss = ((torch.mv(later, s.exp()).log() - s) * e[rows]).sum() / e[rows].sum().clamp(min=1)"""
    + TRAIN,
    "a product with a triangle after a sort": """\
f = nn.Linear(5, 1)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
t = torch.rand(40)
x, e = torch.randn(40, 5), (torch.rand(40) < 0.6).float()
for rows in torch.randperm(40).split(10):
    order = t[rows].argsort(descending=True)
    s, event = f(x[rows])[:, 0][order], e[rows][order]
    loss = ((torch.mv(torch.ones(10, 10).tril(), s.exp()).log() - s) * event).sum() / event.sum().clamp(min=1)"""
    + TRAIN,
    "the upper triangle after an ascending sort": """\
f = nn.Linear(5, 1)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
t = torch.rand(40)
x, e = torch.randn(40, 5), (torch.rand(40) < 0.6).float()
for rows in torch.randperm(40).split(10):
    order = t[rows].argsort()
    s, event = f(x[rows])[:, 0][order], e[rows][order]
    loss = ((torch.mv(torch.ones(10, 10).triu(), s.exp()).log() - s) * event).sum() / event.sum().clamp(min=1)"""
    + TRAIN,
    "all features in the order of time": """\
f, e, g = nn.GRU(4, 8, batch_first=True), nn.Embedding(3, 2), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*f.parameters(), *e.parameters(), *g.parameters()], lr=0.01)
T, V, K, Y = torch.rand(40, 6), torch.rand(40, 6), torch.randint(0, 3, (40, 6)), torch.rand(40)
for rows in torch.randperm(40).split(10):
    t, order = T[rows].sort(dim=1)
    v, k = (torch.take_along_dim(each[rows], order, 1) for each in (V, K))
    steps = torch.cat([t[..., None], v[..., None], e(k)], -1)
    loss = (g(f(steps)[1][0])[:, 0] - Y[rows]).square().mean()"""
    + TRAIN,
    "values beside their own order statistics": """\
f, g = nn.Linear(2, 8), nn.Linear(48, 1)
optimizer = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=0.01)
V, Y = torch.rand(40, 6), torch.rand(40)
for rows in torch.randperm(40).split(10):
    v = V[rows]
    both = torch.stack((v, v.sort(dim=1).values), dim=2)
    loss = (g(f(both).tanh().flatten(1))[:, 0] - Y[rows]).square().mean()"""
    + TRAIN,
    "a mask of lengths and noise beside sorted times": """\
f, g = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=0.01)
T, L, Y = torch.rand(40, 6), torch.randint(2, 7, (40,)), torch.rand(40)
for rows in torch.randperm(40).split(10):
    real = torch.arange(6) < L[rows][:, None]
    t = T[rows].masked_fill(~real, 9.0).sort(dim=1).values
    steps = torch.stack((t, real.float(), torch.randn(10, 6)), dim=2)
    loss = (g(f(steps)[1][0])[:, 0] - Y[rows]).square().mean()"""
    + TRAIN,
    "sums of exponentials before the bank is filled": """\
f, slow = nn.Linear(6, 4), nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
bank = F.normalize(torch.randn(32, 4), dim=1)
for step in range(3):
    x = torch.randn(8, 6)
    q = F.normalize(f(x), dim=1)
    k = F.normalize(slow(x + 0.1), dim=1).detach()
    same = torch.linalg.vecdot(q, k) / 0.2
    rest = F.linear(q, bank.clone()) / 0.2
    bank[8 * step : 8 * step + 8] = k
    loss = (torch.logaddexp(same, rest.logsumexp(1)) - same).mean()"""
    + TRAIN,
    "a softmax over a bank that holds the positive": """\
f, slow = nn.Linear(6, 4), nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
bank = F.normalize(torch.randn(32, 4), dim=1)
for step in range(3):
    x = torch.randn(8, 6)
    q = F.normalize(f(x), dim=1)
    k = F.normalize(slow(x + 0.1), dim=1).detach()
    bank[8 * step : 8 * step + 8] = k
    same = torch.linalg.vecdot(q, k) / 0.2
    loss = ((q @ bank.T / 0.2).logsumexp(1) - same).mean()"""
    + TRAIN,
    "a ratio over a bank that holds the positive": """\
f, slow = nn.Linear(6, 4), nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
bank = F.normalize(torch.randn(32, 4), dim=1)
for step in range(3):
    x = torch.randn(8, 6)
    q = F.normalize(f(x), dim=1)
    k = F.normalize(slow(x + 0.1), dim=1).detach()
    bank[8 * step : 8 * step + 8] = k
    same = ((q * k).sum(1) / 0.2).exp()
    rest = (q @ bank.T / 0.2).exp().sum(1)
    loss = -(same / rest).log().mean() + torch.add(rest.log(), same.log(), alpha=-1).mean()"""
    + TRAIN,
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_line_is_told(case: str, tmp_path: Path) -> None:
    cause, script = FAULTS[case]
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("case", HEALTHY)
def test_what_looks_alike_and_is_meant_is_quiet(case: str, tmp_path: Path) -> None:
    assert alarms(HEAD + HEALTHY[case], tmp_path) == []
