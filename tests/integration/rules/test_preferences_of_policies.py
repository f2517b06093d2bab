"""Preferences between two answers, measured against a reference that is the policy itself or another model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

POLICY = """
class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(6, 6).requires_grad_(False)
        self.a, self.b = nn.Parameter(torch.randn(2, 6)), nn.Parameter(torch.zeros(6, 2))
        self.adapts = True
    def forward(self, x):
        return self.base(x) + (x @ self.a.T @ self.b.T if self.adapts else 0)
policy = Adapted()
optimizer = torch.optim.SGD([policy.a, policy.b], lr=0.1)
start = copy.deepcopy(policy).requires_grad_(False)
def score(model, x, y):
    return model(x).log_softmax(1).gather(1, y).sum(1)
for step in range(4):
    x, good, bad = torch.randn(8, 6), torch.randint(0, 3, (8, 4)), torch.randint(2, 6, (8, 4))
"""
ITSELF = """
    pi_good, pi_bad = score(policy, x, good), score(policy, x, bad)
    with torch.no_grad():
        ref_good, ref_bad = score(policy, x, good), score(policy, x, bad)  # HERE
    loss = -F.logsigmoid(0.1 * ((pi_good - ref_good) - (pi_bad - ref_bad))).mean()
"""
OTHERS = (
    """
    pi_good, pi_bad = score(policy, x, good), score(policy, x, bad)
    policy.adapts = False
    with torch.no_grad():
        ref_good, ref_bad = score(policy, x, good), score(policy, x, bad)
    policy.adapts = True
    loss = -F.logsigmoid(0.1 * ((pi_good - ref_good) - (pi_bad - ref_bad))).mean()
""",
    """
    pi_good, pi_bad = score(policy, x, good), score(policy, x, bad)
    with torch.no_grad():
        ref_good, ref_bad = score(start, x, good), score(start, x, bad)
    loss = -F.logsigmoid(0.1 * ((pi_good - ref_good) - (pi_bad - ref_bad))).mean()
""",
    """
    loss = -F.logsigmoid(0.1 * (score(policy, x, good) - score(policy, x, bad))).mean()
""",
    """
    with torch.no_grad():
        old = score(policy, x, good)
    ratio = (score(policy, x, good) - old).exp()
    loss = -(ratio * torch.randn(8)).mean()
""",
    """
    new = score(policy, x, good)
    with torch.no_grad():
        old = score(policy, x, good)
    loss = (new - old).square().mean() - new.mean()
""",
)


def test_a_reference_that_is_the_policy_is_told(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + POLICY + ITSELF + TRAIN, "ratio_always_one", tmp_path)


@pytest.mark.parametrize("loss", OTHERS)
def test_other_references_are_right(loss: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + POLICY + loss + TRAIN, tmp_path)


RECURRENT = """
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.out = nn.Embedding(12, 32), nn.LSTM(32, 32, batch_first=True), nn.Linear(32, 12)
    def score(self, ids):
        logits = self.out(self.lstm(self.embed(ids[:, :-1]))[0])
        return logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1).sum(-1)
policy = Policy()
reference = {reference}
optimizer = torch.optim.RMSprop(policy.parameters(), lr=0.005)
for step in range(5):
    good, bad = torch.randint(0, 6, (24, 10)) * 2, torch.randint(0, 12, (24, 10))
    with torch.no_grad():
        before = reference.score(good) - reference.score(bad)  # HERE
    loss = -F.logsigmoid(0.2 * (policy.score(good) - policy.score(bad) - before)).mean()
"""


def test_both_sides_of_a_recurrent_policy_may_differ_by_rounding(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + RECURRENT.format(reference="policy") + TRAIN, "ratio_always_one", tmp_path)
    assert not alarms(HEAD + RECURRENT.format(reference="copy.deepcopy(policy)") + TRAIN, tmp_path)


KEPT = """
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout({share}), nn.Linear(8, 3))
kept = {{name: p.detach(){copy} for name, p in net.named_parameters()}}  # HERE
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
for step in range(6):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    logits = net(x)
    with torch.no_grad():
        before = torch.func.functional_call(net, kept, (x,))
    loss = F.cross_entropy(logits, y) + (logits - before).square().mean()
"""


def test_a_dropout_of_nothing_draws_nothing(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + KEPT.format(share="0.0", copy="") + TRAIN, "ratio_always_one", tmp_path)


@pytest.mark.parametrize(("share", "copy"), [("0.0", ".clone()"), ("0.5", ".clone()"), ("0.5", "")])
def test_a_copy_and_other_dropout_masks_differ(share: str, copy: str, tmp_path: Path) -> None:
    found = alarms(HEAD + KEPT.format(share=share, copy=copy) + TRAIN, tmp_path)
    assert "ratio_always_one" not in [each.cause for each in found]


LONG = """
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.rnn, self.out = nn.Embedding(12, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 12)
    def score(self, ids):
        h, _ = self.rnn(self.emb(ids[:, :-1]))
        return F.log_softmax(self.out(h), -1).gather(-1, ids[:, 1:, None]).squeeze(-1).sum(-1)
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
reference = policy
@torch.no_grad()
def scores(good, bad):
    return reference.score(good), reference.score(bad)  # HERE
for step in range(120):
    good, bad = torch.randint(0, 12, (32, 8)), torch.randint(0, 6, (32, 8))
    a, b = policy.score(good), policy.score(bad)
    c, d = scores(good, bad)
    loss = -F.logsigmoid(0.5 * ((a - c) - (b - d))).mean()
"""


def test_a_reference_is_told_where_some_of_its_forwards_are_not_recorded(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + LONG + TRAIN, "ratio_always_one", tmp_path)
