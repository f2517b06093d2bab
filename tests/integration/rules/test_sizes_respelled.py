"""Lengths, mean squares, sums, mixtures and measures of fit in other spellings, and code that is right and looks so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

_PAIRS = (
    """
encoder = nn.Linear(6, 4)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05)
partner = torch.arange(16).roll(8)
for step in range(3):
    z = encoder(torch.randn(16, 6))
    inverse = z.square().sum(1).clamp_min(1e-8).rsqrt()
    unit = z * inverse[:, None]
    {mates}
    positive = {product} / 0.2
    every = (unit @ unit.T / 0.2).masked_fill(torch.eye(16, dtype=torch.bool), -1e9)
    loss = (every.logsumexp(1) - positive).mean()
"""
    + TRAIN
)

_NORM = """
class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain, self.width = nn.Parameter(torch.ones(width)), width
    def forward(self, x):
        {first}
        return {result}
first, norm, last = nn.Linear(4, 8), Norm(8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*first.parameters(), *norm.parameters(), *last.parameters()], lr=0.01)
for step in range(3):
    x = torch.randn(16, 4)
    loss = (last(norm(first(x))) - x[:, :1]).square().mean()
""" + TRAIN.replace("{", "{{")

_BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.drop = nn.Linear(4, 4), nn.Linear(4, 4), nn.Dropout(0.2)
    def forward(self, x):
        {lines}
model = nn.Sequential(Block(), Block(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(3):
    x = torch.randn(16, 4)
    loss = (model(x) - x[:, :1]).square().mean()
""" + TRAIN.replace("{", "{{")

_FIT = """
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(32, 4)
    y = torch.stack((x[:, 0], x[:, 1] * x[:, 2], x.sum(1).tanh()), 1) + 0.1 * torch.randn(32, 3)
    error = y - model(x)
    {loss}
""" + TRAIN.replace("{", "{{")

_MIXED = """
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(4):
    x, y = torch.randn(16, 4), F.one_hot(torch.randint(3, (16,)), 3).float()
    other, w = torch.randperm(16), torch.rand(16, 1)
    mixed = {data}
    target = {labels}
    loss = torch.einsum("nc,nc->n", target, model(mixed).log_softmax(1)).neg().mean()
""" + TRAIN.replace("{", "{{")

_TIMES = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
class Batch:
    def __init__(self):
        self.x, self.months = torch.randn(16, 4), torch.rand(16) + 0.1
        self.event = (torch.rand(16) < 0.5).float()
for step in range(4):
    batch = Batch()
    score = model(batch.x).squeeze(1)
    {lines}
""" + TRAIN.replace("{", "{{")

FAULTS = {
    "an exponential likelihood without the events": (
        "loaded_and_not_used",
        _TIMES.format(lines="loss = (score.exp() * batch.months - score).mean()  # HERE"),
    ),
    "an exponential likelihood with the rate itself": (
        "loaded_and_not_used",
        _TIMES.format(lines="rate = F.softplus(score); loss = -(rate.log() - rate * batch.months).mean()  # HERE"),
    ),
    "the likelihood of Cox without the events": (
        "loaded_and_not_used",
        _TIMES.format(
            lines="s = score[batch.months.argsort(descending=True)]; loss = (s.logcumsumexp(0) - s).mean()  # HERE"
        ),
    ),
    "labels by lerp with one weight for each sample": (
        "labels_mixed_otherwise",
        _MIXED.format(data="torch.lerp(x, x[other], w)", labels="torch.lerp(y[other], y, w)  # HERE"),
    ),
    "labels by products with one weight for each sample": (
        "labels_mixed_otherwise",
        _MIXED.format(data="w * x + (1 - w) * x[other]", labels="(1 - w) * y + w * y[other]  # HERE"),
    ),
    "labels by a difference with one weight for each sample": (
        "labels_mixed_otherwise",
        _MIXED.format(data="x + w * (x[other] - x)", labels="w * y + (1 - w) * y[other]  # HERE"),
    ),
    "rows of others with their own lengths, by index_select": (
        "no_unit_vectors",
        _PAIRS.format(
            mates="mates = z.index_select(0, partner) * inverse.unsqueeze(1)  # HERE",
            product="torch.linalg.vecdot(unit, mates)",
        ),
    ),
    "rolled rows with the lengths of rows": (
        "no_unit_vectors",
        _PAIRS.format(mates="mates = z.roll(8, 0) * inverse[:, None]  # HERE", product="(unit * mates).sum(1)"),
    ),
    "indexed rows over the lengths of rows": (
        "no_unit_vectors",
        _PAIRS.format(
            mates="mates = z[partner] / z.norm(dim=1, keepdim=True)  # HERE",
            product='torch.einsum("nd,nd->n", unit, mates)',
        ),
    ),
    "the mean of squares of einsum": (
        "divided_by_variance",
        _NORM.format(
            first='energy = torch.einsum("nd,nd->n", x, x) / x.size(-1)',
            result="self.gain * x * energy.add(1e-5).reciprocal()[..., None]  # HERE",
        ),
    ),
    "values over the mean of their squares": (
        "divided_by_variance",
        _NORM.format(first="pass", result="self.gain * x / (x.pow(2).mean(-1, keepdim=True) + 1e-5)  # HERE"),
    ),
    "a gain over a squared norm and a width": (
        "divided_by_variance",
        _NORM.format(
            first="square = torch.linalg.vector_norm(x, dim=-1, keepdim=True) ** 2 / self.width",
            result="x * (self.gain / (square + 1e-5))  # HERE",
        ),
    ),
    "torch.add with alpha": (
        "added_to_itself",
        _BLOCK.format(lines="x = self.second(self.first(x).relu()); return torch.add(x, x, alpha=1.0)  # HERE"),
    ),
    "a sum behind a dropout": (
        "added_to_itself",
        _BLOCK.format(lines="x = self.second(self.first(x).relu()); return x + self.drop(x)  # HERE"),
    ),
    "the sum of a list": (
        "added_to_itself",
        _BLOCK.format(
            lines="h = [self.first(x)]; h.append(self.second(h[-1].relu())); return sum((h[-1], h[1]))  # HERE"
        ),
    ),
    "the explained variance": (
        "fit_maximized",
        _FIT.format(loss="loss = (1 - error.var(0) / y.var(0)).mean()  # HERE"),
    ),
    "one minus a share of squares": (
        "fit_maximized",
        _FIT.format(
            loss="loss = torch.sub(1, error.norm(dim=0).square() / (y - y.mean(0)).norm(dim=0).square()).mean()  # HERE"
        ),
    ),
    "squares of vecdot": (
        "fit_maximized",
        _FIT.format(loss="loss = -torch.linalg.vecdot(error, error, dim=0).mean()  # HERE"),
    ),
}

HEALTHY = {
    "an exponential likelihood with the events": _TIMES.format(
        lines="loss = (score.exp() * batch.months - batch.event * score).mean()"
    ),
    "a Poisson loss of counts in these times": _TIMES.format(
        lines="loss = (score.exp() * batch.months - (batch.event * 2) * score).mean()"
    ),
    "a fit of the times": _TIMES.format(lines="loss = (score - batch.months).square().mean()"),
    "labels by lerp like the data": _MIXED.format(
        data="torch.lerp(x, x[other], w)", labels="torch.lerp(y, y[other], w)"
    ),
    "labels by products like data by lerp": _MIXED.format(
        data="torch.lerp(x[other], x, w)", labels="w * y + (1 - w) * y[other]"
    ),
    "labels by a difference like data by products": _MIXED.format(
        data="(1 - w) * x + w * x[other]", labels="y + w * (y[other] - y)"
    ),
    "rows of others with the lengths of the others": _PAIRS.format(
        mates="mates = z.index_select(0, partner) * inverse.index_select(0, partner).unsqueeze(1)",
        product="torch.linalg.vecdot(unit, mates)",
    ),
    "indexed rows with indexed lengths": _PAIRS.format(
        mates="mates = z[partner] * inverse[partner][:, None]", product="(unit * mates).sum(1)"
    ),
    "rows of what was divided": _PAIRS.format(
        mates="mates = unit.roll(8, 0)", product="torch.linalg.vecdot(unit, mates)"
    ),
    "halves with the lengths of halves": _PAIRS.format(
        mates="mates = torch.cat((z[8:] * inverse[8:][:, None], z[:8] * inverse[:8][:, None]))",
        product="(unit * mates).sum(1)",
    ),
    "the root of the mean of squares": _NORM.format(
        first="pass", result="self.gain * x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()"
    ),
    "the share of a projection": _NORM.format(
        first="other = x.roll(1, -1)",
        result="self.gain * x * ((x * other).mean(-1, keepdim=True) / (x.square().mean(-1, keepdim=True) + 1e-5))",
    ),
    "squares over their mean": _NORM.format(
        first="share = x / (x.square().mean(-1, keepdim=True) + 1e-5)", result="self.gain * (share * x)"
    ),
    "a residual connection behind a dropout": _BLOCK.format(
        lines="h = self.second(self.first(x).relu()); return torch.add(x, self.drop(h), alpha=1.0)"
    ),
    "the input of a module twice": _BLOCK.format(lines="return self.second(self.first(x + self.drop(x)).relu())"),
    "one minus the explained variance": _FIT.format(loss="loss = (error.var(0) / y.var(0)).mean()"),
    "the variance around a centre, made larger": """
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, weight_decay=0.1)
centre = torch.tensor([0.1, 0.2, 0.3])
for step in range(3):
    z = F.normalize(model(torch.randn(32, 4)), dim=1)
    loss = -(z - centre).var(0).mean()
"""
    + TRAIN,
}


@pytest.mark.parametrize(("cause", "script"), FAULTS.values(), ids=FAULTS)
def test_fault(cause: str, script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("script", HEALTHY.values(), ids=HEALTHY)
def test_healthy(script: str, tmp_path: Path) -> None:
    assert alarms(HEAD + script, tmp_path) == []
