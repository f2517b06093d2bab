"""Sums, means and products in spellings such as einsum(), vecdot() and masked_fill(), and what looks like them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FAULTS = {
    "a factor that was divided by the variance": (
        "divided_by_variance",
        """\
f, g, gamma = nn.Linear(6, 8), nn.Linear(8, 1), nn.Parameter(torch.ones(8))
optimizer = torch.optim.SGD([*f.parameters(), *g.parameters(), gamma], lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    h = f(x)
    var, mean = torch.var_mean(h, dim=1, keepdim=True)
    gain = gamma * (var + 1e-5).reciprocal()  # HERE
    loss = (g((h - mean) * gain) - x[:, :1]).square().mean()"""
        + TRAIN,
    ),
    "a variance that is a mean of squares": (
        "divided_by_variance",
        """\
f, g = nn.Linear(6, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*f.parameters(), *g.parameters()], lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    h = f(x)
    centered = h - h.mean(1, keepdim=True)
    var = (centered * centered).mean(1, keepdim=True)
    normal = centered / (var + 1e-5)  # HERE
    loss = (g(normal) - x[:, :1]).square().mean()"""
        + TRAIN,
    ),
    "a scale and a shift of a batch normalization": (
        "divided_by_variance",
        """\
f, g, gamma, beta = nn.Linear(6, 8), nn.Linear(8, 1), nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))
optimizer = torch.optim.SGD([*f.parameters(), *g.parameters(), gamma, beta], lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    h = f(x)
    var, mean = h.var(0), h.mean(0)
    scale = gamma / (var + 1e-5)  # HERE
    normal = h * scale + (beta - mean * scale)
    loss = (g(normal) - x[:, :1]).square().mean()"""
        + TRAIN,
    ),
    "an entropy of scores as einsum": (
        "entropy_of_scores",
        """\
f = nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    x, a, adv = torch.randn(16, 6), torch.randint(0, 4, (16,)), torch.randn(16)
    s = f(x)
    logp = F.log_softmax(s, -1).gather(1, a[:, None]).squeeze(1)
    ent = -torch.einsum("nk,nk->n", s.softmax(-1), s)  # HERE
    loss = -(logp * adv).mean() - 0.01 * ent.mean()"""
        + TRAIN,
    ),
    "an entropy of scores as a matrix product": (
        "entropy_of_scores",
        """\
f = nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    x, a, adv = torch.randn(16, 6), torch.randint(0, 4, (16,)), torch.randn(16)
    s = f(x)
    p = s.softmax(-1)
    logp = p.log()[torch.arange(16), a]
    ent = -torch.bmm(p.unsqueeze(1), s.unsqueeze(2)).squeeze()  # HERE
    loss = -(logp * adv).mean() - 0.01 * ent.mean()"""
        + TRAIN,
    ),
    "an entropy of scores with the probabilities of a Categorical": (
        "entropy_of_scores",
        """\
f = nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    x, a, adv = torch.randn(16, 6), torch.randint(0, 4, (16,)), torch.randn(16)
    s = f(x)
    d = torch.distributions.Categorical(logits=s)
    logp = d.log_prob(a)
    ent = -(d.probs * s).sum(-1)  # HERE
    loss = -(logp * adv).mean() - 0.01 * ent.mean()"""
        + TRAIN,
    ),
    "zeros from masked_fill under amin": (
        "least_of_hidden",
        """\
f = nn.Linear(6, 4)
optimizer = torch.optim.SGD(f.parameters(), lr=0.1)
for step in range(4):
    x, y = torch.randn(16, 6), torch.arange(16) % 4
    d = torch.cdist(f(x), f(x) + 0.1)
    same = y[:, None] == y
    far = (d * same).amax(1)
    near = d.masked_fill(same, 0.0).amin(1)  # HERE
    loss = F.relu(far - near + 0.3).mean()"""
        + TRAIN,
    ),
    "zeros written by a mask under kthvalue": (
        "least_of_hidden",
        """\
f = nn.Linear(6, 4)
optimizer = torch.optim.SGD(f.parameters(), lr=0.1)
for step in range(4):
    x, y = torch.randn(16, 6), torch.arange(16) % 4
    d = torch.cdist(f(x), f(x) + 0.1)
    same = y[:, None] == y
    far = (d * same).amax(1)
    other = d.clone()
    other[same] = 0
    near = other.kthvalue(1, dim=1).values  # HERE
    loss = F.relu(far - near + 0.3).mean()"""
        + TRAIN,
    ),
    "zeros from where under min": (
        "least_of_hidden",
        """\
f = nn.Linear(6, 4)
optimizer = torch.optim.SGD(f.parameters(), lr=0.1)
for step in range(4):
    x, y = torch.randn(16, 6), torch.arange(16) % 4
    d = torch.cdist(f(x), f(x) + 0.1)
    same = y[:, None] == y
    far = (d * same).amax(1)
    near = torch.where(same, torch.zeros_like(d), d).min(1)[0]  # HERE
    loss = F.relu(far - near + 0.3).mean()"""
        + TRAIN,
    ),
    "a dot product of all samples": (
        "sum_over_batch",
        """\
f = nn.Linear(6, 4)
optimizer = torch.optim.SGD(f.parameters(), lr=0.001)
for step in range(4):
    x = torch.randn(16, 6)
    mu, ls = f(x).chunk(2, 1)
    rec = (x[:, :2] - mu - ls.exp() * torch.randn_like(mu)).square().sum(1)
    kl = 0.5 * (mu.flatten().dot(mu.flatten()) + (2 * ls).exp().sum(1) - 2 * ls.sum(1) - 2)  # HERE
    loss = (rec + kl).mean()"""
        + TRAIN,
    ),
    "an einsum without an output that is added with alpha": (
        "sum_over_batch",
        """\
f = nn.Linear(6, 4)
optimizer = torch.optim.SGD(f.parameters(), lr=0.001)
for step in range(4):
    x = torch.randn(16, 6)
    mu, ls = f(x).chunk(2, 1)
    rec = torch.linalg.vecdot(x[:, :2] - mu, x[:, :2] - mu)
    pull = torch.einsum("nd,nd->", mu, mu)  # HERE
    loss = torch.add(rec, pull, alpha=0.1).sum() / 16"""
        + TRAIN,
    ),
    "an einsum with the mask over the length": (
        "mean_over_hidden",
        """\
e, g = nn.Embedding(9, 8), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*e.parameters(), *g.parameters()], lr=0.1)
for step in range(3):
    real = torch.arange(7) < torch.randint(2, 8, (6, 1))
    h = e(torch.randint(0, 9, (6, 7)))
    h = torch.einsum("btd,bt->bd", h, real.float()) / h.shape[1]  # HERE
    loss = F.cross_entropy(g(h), torch.randint(0, 2, (6,)))"""
        + TRAIN,
    ),
    "a sum of filled positions over the length": (
        "mean_over_hidden",
        """\
e, g = nn.Embedding(9, 8), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*e.parameters(), *g.parameters()], lr=0.1)
for step in range(3):
    real = torch.arange(7) < torch.randint(2, 8, (6, 1))
    h = e(torch.randint(0, 9, (6, 7)))
    h = h.masked_fill(~real[..., None], 0.0).sum(1) / 7  # HERE
    loss = F.cross_entropy(g(h), torch.randint(0, 2, (6,)))"""
        + TRAIN,
    ),
    "a mean of what where left": (
        "mean_over_hidden",
        """\
e, g = nn.Embedding(9, 8), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*e.parameters(), *g.parameters()], lr=0.1)
for step in range(3):
    real = torch.arange(7) < torch.randint(2, 8, (6, 1))
    h = e(torch.randint(0, 9, (6, 7)))
    h = torch.where(real.unsqueeze(2), h, torch.zeros(())).mean(1)  # HERE
    loss = F.cross_entropy(g(h), torch.randint(0, 2, (6,)))"""
        + TRAIN,
    ),
    "an einsum of standardized values": (
        "cancels_to_zero",
        """\
f, g = nn.Linear(6, 8), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*f.parameters(), *g.parameters()], lr=0.1)
for step in range(4):
    x, y = torch.randn(16, 5, 6), torch.randint(0, 3, (16,))
    h = f(x)
    std, mean = torch.std_mean(h, 1, keepdim=True)
    h = (h - mean) / std  # HERE
    loss = F.cross_entropy(g(torch.einsum("btc->bc", h) / 5), y)"""
        + TRAIN,
    ),
}
HEALTHY = {
    "a factor with the root of the variance": """\
f, g, gamma, beta = nn.Linear(6, 8), nn.Linear(8, 1), nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))
optimizer = torch.optim.SGD([*f.parameters(), *g.parameters(), gamma, beta], lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    h = f(x)
    var, mean = torch.var_mean(h, 0)
    scale = gamma * torch.rsqrt(var + 1e-5)
    normal = torch.addcmul(beta - mean * scale, h, scale)
    loss = (g(normal) - x[:, :1]).square().mean()"""
    + TRAIN,
    "a square over its variance": """\
f, g = nn.Linear(6, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*f.parameters(), *g.parameters()], lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    h = torch.tanh(f(x))
    var, mean = torch.var_mean(h, 1, keepdim=True)
    precision = 1 / (var + 1e-2)
    kurt = ((h - mean) * precision * (h - mean)).mean(1, keepdim=True)
    loss = (g(h) + 0.1 * kurt - x[:, :1]).square().mean()"""
    + TRAIN,
    "a slope, a covariance over a variance": """\
f, g = nn.Linear(6, 8), nn.Linear(8, 8)
optimizer = torch.optim.SGD([*f.parameters(), *g.parameters()], lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    a, b = f(x), g(f(x))
    ca, cb = a - a.mean(1, keepdim=True), b - b.mean(1, keepdim=True)
    slope = (ca * cb).mean(1) / (ca.square().mean(1) + 1e-3)
    loss = (slope - x[:, 0]).square().mean()"""
    + TRAIN,
    "an entropy of normalized logits": """\
f = nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    x, a, adv = torch.randn(16, 6), torch.randint(0, 4, (16,)), torch.randn(16)
    d = torch.distributions.Categorical(logits=f(x))
    ent = -torch.linalg.vecdot(d.probs, d.logits)
    loss = -(d.log_prob(a) * adv).mean() - 0.01 * ent.mean()"""
    + TRAIN,
    "the mean of values over their own softmax": """\
f = nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    x, a, y = torch.randn(16, 6), torch.randint(0, 4, (16,)), torch.randn(16)
    q = f(x)
    value = torch.linalg.vecdot(q.softmax(-1), q)
    loss = (value - y).square().mean() + (q.gather(1, a[:, None])[:, 0] - y).square().mean()"""
    + TRAIN,
    "an entropy of scores minus logsumexp": """\
f = nn.Linear(6, 4)
optimizer = torch.optim.Adam(f.parameters(), lr=0.01)
for step in range(4):
    x, a, adv = torch.randn(16, 6), torch.randint(0, 4, (16,)), torch.randn(16)
    s = f(x)
    logs = s - s.logsumexp(-1, keepdim=True)
    ent = -torch.einsum("nk,nk->n", logs.softmax(-1), logs)
    loss = F.nll_loss(logs, a) - 0.01 * ent.mean()"""
    + TRAIN,
    "infinity from where under amin": """\
f = nn.Linear(6, 4)
optimizer = torch.optim.SGD(f.parameters(), lr=0.1)
for step in range(4):
    x, y = torch.randn(16, 6), torch.arange(16) % 4
    d = torch.cdist(f(x), f(x) + 0.1)
    same = y[:, None] == y
    far = torch.where(same, d, 0.0).amax(1)
    near = torch.where(same, torch.inf, d).amin(1)
    loss = F.relu(far - near + 0.3).mean()"""
    + TRAIN,
    "an einsum that is divided by the number of samples": """\
f = nn.Linear(6, 4)
optimizer = torch.optim.SGD(f.parameters(), lr=0.001)
for step in range(4):
    x = torch.randn(16, 6)
    mu, ls = f(x).chunk(2, 1)
    rec = torch.linalg.vecdot(x[:, :2] - mu, x[:, :2] - mu)
    pull = torch.einsum("nd,nd->n", mu, mu)
    loss = (rec + 0.1 * pull).mean() + torch.einsum("nd,nd->", mu, mu) / 16"""
    + TRAIN,
    "a mean weighted by shares": """\
f = nn.Linear(6, 4)
optimizer = torch.optim.SGD(f.parameters(), lr=0.001)
w = torch.rand(16); w /= w.sum()
for step in range(4):
    x = torch.randn(16, 6)
    out = f(x)[:, 0]
    base = torch.dot(out, w)
    loss = (out - base - x[:, 0]).square().mean()"""
    + TRAIN,
    "a penalty on weights for each sample": """\
f = nn.Linear(6, 4)
optimizer = torch.optim.SGD(f.parameters(), lr=0.001)
for step in range(4):
    x = torch.randn(16, 6)
    out = f(x)
    weight = torch.einsum("ij,ij->", f.weight, f.weight)
    loss = (out.square().sum(1) + 0.01 * weight - x[:, 0]).mean()"""
    + TRAIN,
    "an einsum with the mask over its sum": """\
e, g = nn.Embedding(9, 8), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*e.parameters(), *g.parameters()], lr=0.1)
for step in range(3):
    real = torch.arange(7) < torch.randint(2, 8, (6, 1))
    h = e(torch.randint(0, 9, (6, 7)))
    h = torch.einsum("btd,bt->bd", h, real.float()) / real.sum(1, keepdim=True)
    loss = F.cross_entropy(g(h), torch.randint(0, 2, (6,)))"""
    + TRAIN,
    "a sum of masked positions over the root of the width": """\
e, g = nn.Embedding(9, 8), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*e.parameters(), *g.parameters()], lr=0.1)
for step in range(3):
    real = torch.arange(7) < torch.randint(2, 8, (6, 1))
    h = e(torch.randint(0, 9, (6, 7)))
    h = torch.bmm(real.float()[:, None], h).squeeze(1) / 8 ** 0.5
    loss = F.cross_entropy(g(h), torch.randint(0, 2, (6,)))"""
    + TRAIN,
    "a mean that is divided by the share of the mask": """\
e, g = nn.Embedding(9, 8), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*e.parameters(), *g.parameters()], lr=0.1)
for step in range(3):
    real = torch.arange(7) < torch.randint(2, 8, (6, 1))
    h = e(torch.randint(0, 9, (6, 7)))
    h = torch.bmm(real.float()[:, None], h).squeeze(1) / 7 / (real.float().mean(1, keepdim=True))
    loss = F.cross_entropy(g(h), torch.randint(0, 2, (6,)))"""
    + TRAIN,
    "an einsum along another axis than that of the normalization": """\
f, g = nn.Linear(6, 8), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*f.parameters(), *g.parameters()], lr=0.1)
for step in range(4):
    x, y = torch.randn(16, 5, 6), torch.randint(0, 3, (16,))
    h = f(x)
    std, mean = torch.std_mean(h, 2, keepdim=True)
    h = (h - mean) / std
    loss = F.cross_entropy(g(torch.einsum("btc->bc", h) / 5), y)"""
    + TRAIN,
    "sums over pairs of one class over the size of the batch": """\
f = nn.Linear(6, 4)
optimizer = torch.optim.SGD(f.parameters(), lr=0.1)
for step in range(3):
    x, y = torch.randn(12, 6), torch.randint(0, 3, (12,))
    z = F.normalize(f(x), dim=1)
    same = (y[:, None] == y).float()
    log_p = (z @ z.T / 0.5).log_softmax(1)
    loss = -((log_p * same).sum(1) / 12).mean()"""
    + TRAIN,
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_line_is_told(case: str, tmp_path: Path) -> None:
    cause, script = FAULTS[case]
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("case", HEALTHY)
def test_what_looks_alike_and_is_meant_is_quiet(case: str, tmp_path: Path) -> None:
    assert alarms(HEAD + HEALTHY[case], tmp_path) == []
