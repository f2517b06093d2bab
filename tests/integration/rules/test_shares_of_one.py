"""Softmaxes by an index whose groups have one value each, and those of real groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
def add_up(x, index, n):
    return torch.zeros(n, *x.shape[1:]).index_add(0, index, x)

def softmax_by(score, index):
    n = int(index.max()) + 1
    top = torch.full((n, *score.shape[1:]), float("-inf"))
    top = top.scatter_reduce(0, index.view(-1, *[1] * (score.dim() - 1)).expand_as(score), score.detach(), "amax")
    e = (score - top[index]).exp()
    return e / add_up(e, index, n)[index]

def plain_softmax_by(score, index):
    e = (score - score.max()).exp()
    total = torch.zeros(int(index.max()) + 1).scatter_add(0, index, e)
    return e / (total.gather(0, index) + 1e-16)

class Readout(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.value = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Linear(4, 4)

    def forward(self, h, assign):
        atom, group = assign
        WEIGHTS
        return add_up(w.view(-1, 1) * self.value(h), group, int(group.max()) + 1)

readout, head = Readout(), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*readout.parameters(), *head.parameters()], lr=0.01)
for step in range(4):
    sizes = torch.randint(LEAST, 6, (12,))
    group = torch.repeat_interleave(torch.arange(12), sizes)
    x, y = torch.randn(len(group), 4), torch.randn(12, 1)
    loss = F.mse_loss(head(readout(x, torch.stack([torch.arange(len(group)), group]))), y)
"""
    + TRAIN
)
FAULTY = {
    "a function": "w = softmax_by(self.score(h).squeeze(-1), atom)  # HERE",
    "with an axis": "w = softmax_by(self.score(h), atom)  # HERE",
    "without the largest": "w = plain_softmax_by(self.score(h).squeeze(-1), atom)  # HERE",
    "on the spot": "e = self.score(h).exp()\n"
    "        total = add_up(e, atom, len(h))  # HERE\n        w = e / total[atom]",
}
HEALTHY = {
    "the groups": "w = softmax_by(self.score(h).squeeze(-1), group)",
    "without the largest": "w = plain_softmax_by(self.score(h).squeeze(-1), group)",
    "one weight for all": "w = torch.sigmoid(self.score(h))",
    "divided by what each has": "w = self.score(h) / (1 + add_up(self.score(h).abs(), atom, len(h))[atom])",
}


def script(weights: str, least: int = 2) -> str:
    return SCRIPT.replace("WEIGHTS", weights).replace("LEAST", str(least))


@pytest.mark.parametrize("name", FAULTY)
def test_an_index_that_gives_each_row_a_group_of_its_own_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(script(FAULTY[name]), "normalized_alone", tmp_path)
    (told, *others) = alarms(script(FAULTY[name]), tmp_path)
    assert "have one value" in told.message
    assert not others


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize("name", HEALTHY)
def test_real_groups_are_right_also_where_some_have_one_row(name: str, least: int, tmp_path: Path) -> None:
    assert not alarms(script(HEALTHY[name], least), tmp_path)
