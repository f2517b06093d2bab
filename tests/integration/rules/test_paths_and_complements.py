"""Scores of paths beside sums over all paths, and complements of probabilities whose logarithms are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

TAGS = """
class Scorer(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.emit = nn.Linear(6, n)
        self.table = nn.Parameter(torch.zeros(n, n))
        self.start, self.end = nn.Parameter(torch.zeros(n)), nn.Parameter(torch.zeros(n))
net = Scorer()
optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
def batch(n=12, t=7):
    tags = (torch.randint(0, 4, (n, 1)) + torch.arange(t)) % 4
    return F.one_hot(tags, 6).float() + 0.5 * torch.randn(n, t, 6), tags
"""
SLICES = """
def path(emit, tags):
    score = emit.gather(2, tags[..., None]).squeeze(2).sum(1) + net.start[tags[:, 0]] + net.end[tags[:, -1]]
    return score + net.table[{first}, {second}].sum(1){line}
def partition(emit):
    alpha = net.start + emit[:, 0]
    for t in range(1, emit.size(1)):
        alpha = torch.logsumexp(alpha[:, :, None] + net.table[None] + emit[:, t][:, None], dim=1)
    return torch.logsumexp(alpha + net.end, dim=1)
for step in range(20):
    x, tags = batch()
    emit = net.emit(x)
    loss = (partition(emit) - path(emit, tags)).mean()
"""
LIKELIHOOD = """
for step in range(20):
    x, tags = batch()
    emit = net.emit(x).transpose(0, 1)
    alpha, score = emit[0] + net.start, (emit[0] + net.start).gather(1, tags[:, :1]).squeeze(1)
    for t in range(1, len(emit)):
        sums = [torch.logsumexp(alpha + net.table[:, k] + emit[t, :, k, None], 1) for k in range(4)]
        alpha = torch.stack(sums, 1)
        score = score + net.table[tags[:, t - 1], tags[:, t]] + emit[t].gather(1, tags[:, t, None]).squeeze(1)
    score = score + net.end[tags[:, -1]]{line}
    total = torch.logsumexp(alpha{end}, 1)
    llh = score - total
    loss = -llh.mean()
"""
ODDS = """
net = nn.Linear(6, 4)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    x, y = torch.randn(16, 6), torch.randint(0, 4, (16,))
"""

FAULTS = {
    "transitions in the other order, all at once": (
        "path_above_sum",
        TAGS + SLICES.format(first="tags[:, 1:]", second="tags[:, :-1]", line="  # HERE") + TRAIN,
    ),
    "end scores that only the path counts": (
        "path_above_sum",
        TAGS + LIKELIHOOD.format(end="", line="  # HERE") + TRAIN,
    ),
    "log odds of an average": (
        "complement_of_logarithm",
        ODDS
        + """
    log_p = net(x).log_softmax(1).gather(1, y[:, None]).squeeze(1).view(4, 4).mean(1)
    odds = log_p - torch.log1p(-log_p)  # HERE
    loss = -F.logsigmoid(odds).mean()
"""
        + TRAIN,
    ),
    "a focal loss with the logarithm of the probability": (
        "complement_of_logarithm",
        ODDS
        + """
    pt = -F.cross_entropy(net(x), y, reduction="none")
    loss = -((1 - pt) ** 2 * pt).mean()  # HERE
"""
        + TRAIN,
    ),
    "a guarded logarithm": (
        "complement_of_logarithm",
        ODDS
        + """
    chosen = F.log_softmax(net(x), -1)[torch.arange(16), y]
    rest = 1.0 - chosen  # HERE
    loss = -(chosen - torch.log(rest.clamp(min=1e-6))).mean()
"""
        + TRAIN,
    ),
}
HEALTHY = {
    "transitions in one order": TAGS + SLICES.format(first="tags[:, :-1]", second="tags[:, 1:]", line="") + TRAIN,
    "end scores that both count": TAGS + LIKELIHOOD.format(end=" + net.end", line="") + TRAIN,
    "a contrast that leaves the positive out of its sum": """
net = nn.Linear(6, 4)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(20):
    z = F.normalize(net(torch.randn(16, 6)), dim=1)
    scores, other = z @ z.T / 0.1, torch.roll(torch.arange(16), 8)
    hidden = torch.eye(16, dtype=torch.bool) | F.one_hot(other, 16).bool()
    rest = scores.masked_fill(hidden, -1e9).view(16, 4, 4).logsumexp(2).logsumexp(1)
    loss = (rest - scores.gather(1, other[:, None]).squeeze(1)).mean()
"""
    + TRAIN,
    "log odds of a probability": ODDS
    + """
    log_p = net(x).log_softmax(1).gather(1, y[:, None]).squeeze(1)
    odds = log_p - torch.log1p(-log_p.exp().clamp(max=0.999))
    loss = -F.logsigmoid(odds).mean()
"""
    + TRAIN,
    "a focal loss": ODDS
    + """
    log_p = -F.cross_entropy(net(x), y, reduction="none")
    loss = -((1 - log_p.exp()) ** 2 * log_p).mean()
"""
    + TRAIN,
    "the logarithm of an error and one": ODDS
    + """
    loss = torch.log(1 + F.cross_entropy(net(x), y)) + torch.log1p(F.cross_entropy(net(x), y, reduction="none")).mean()
"""
    + TRAIN,
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_line_is_told(case: str, tmp_path: Path) -> None:
    cause, script = FAULTS[case]
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("case", HEALTHY)
def test_what_looks_alike_and_is_meant_is_quiet(case: str, tmp_path: Path) -> None:
    assert alarms(HEAD + HEALTHY[case], tmp_path) == []
