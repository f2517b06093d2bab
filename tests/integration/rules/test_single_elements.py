"""Normalizations that have a single value to normalize."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

ALONE = "normalized_alone"
SERIES = """
class Net(nn.Module):
    def __init__(self, n, hidden=4):
        super().__init__()
        {made}
        self.gru, self.out = nn.GRU(n, hidden, batch_first=True), nn.Linear(hidden, 1)

    def forward(self, x):
        {normed}
        return self.out(self.gru(x)[0][:, -1])

net = Net({n})
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.randn(12, 5, {n})
for i in range(3):
    x = data[4 * i : 4 * i + 4]
    loss = (net(x) - x[:, -1, :1]).square().mean()
"""
SINGLE = (
    ("self.norm = nn.LayerNorm(n)  # HERE", "x = self.norm(x)"),
    ("self.norm = nn.LayerNorm((n,), elementwise_affine=False)  # HERE", "x = self.norm(x)"),
    ("self.norm = nn.Identity()", "x = F.layer_norm(x, x.shape[-1:])  # HERE"),
    ("self.norm = nn.GroupNorm(5 * n, 5 * n)  # HERE", "x = self.norm(x.flatten(1)).view(x.shape)"),
    ("self.norm = nn.Identity()", "x = F.group_norm(x.flatten(1), 5 * x.shape[-1]).view(x.shape)  # HERE"),
)
SEVERAL = (
    ("self.norm = nn.LayerNorm(n)", "x = self.norm(x)", 3),
    ("self.norm = nn.LayerNorm((5, n))", "x = self.norm(x)", 1),
    ("self.norm = nn.GroupNorm(1, 5)", "x = self.norm(x)", 1),
    ("self.norm = nn.GroupNorm(5, 5)", "x = self.norm(x)", 3),
    ("self.norm = nn.LayerNorm(5)", "x = self.norm(x.transpose(1, 2)).transpose(1, 2)", 1),
    ("self.norm = nn.InstanceNorm1d(n)", "x = self.norm(x.transpose(1, 2)).transpose(1, 2)", 1),
)


@pytest.mark.parametrize(("made", "normed"), SINGLE)
def test_a_normalization_of_single_values_is_told(made: str, normed: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + SERIES.format(made=made, normed=normed, n=1) + TRAIN, ALONE, tmp_path)


@pytest.mark.parametrize(("made", "normed", "n"), SEVERAL)
def test_a_normalization_of_several_values_is_right(made: str, normed: str, n: int, tmp_path: Path) -> None:
    found = alarms(HEAD + SERIES.format(made=made, normed=normed, n=n) + TRAIN, tmp_path)
    assert ALONE not in {finding.cause for finding in found}


POOLED = """
class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(1, n, 1, 1)), nn.Parameter(torch.zeros(1, n, 1, 1))

    def forward(self, x):
        x = x - x.mean((2, 3), keepdim=True)
        return self.gain * x / (x.square().mean((2, 3), keepdim=True) + 1e-5).sqrt() + self.shift

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.near, self.far, self.out = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(2, 4, 1), nn.Conv2d(8, 1, 1)
        self.first, self.second = Norm(4), Norm(4)

    def forward(self, x):
        near = torch.relu(self.first(self.near(x)))
        far = self.far(F.adaptive_avg_pool2d(x, SIZE))
        far = torch.relu(self.second(far))  # HERE
        return self.out(torch.cat([near, F.interpolate(far, size=x.shape[-2:])], 1))

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(6, 2, 8, 8)
    loss = (net(x) - x[:, :1]).square().mean()
"""


def test_a_branch_that_was_pooled_to_one_number_is_told_where_it_is_normalized(tmp_path: Path) -> None:
    script = HEAD + POOLED.replace("SIZE", "1") + TRAIN
    assert_first_alarm(script, ALONE, tmp_path)
    assert [each.cause for each in alarms(script, tmp_path)] == [ALONE]


def test_a_branch_that_was_pooled_to_a_few_numbers_is_right(tmp_path: Path) -> None:
    assert not alarms(HEAD + POOLED.replace("SIZE", "2") + TRAIN, tmp_path)


REWARDS = """
policy = nn.Linear(4, 3)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(24, 4)
    logits = policy(x)
    with torch.no_grad():
        choice = logits.softmax(-1).multinomial(1)
        rewards = (choice.float() - x[:, :1]).reshape({shape})
        advantages = rewards - rewards.mean(dim=-1, keepdim=True)  # HERE
    loss = -(advantages.reshape(-1, 1) * logits.log_softmax(-1).gather(1, choice)).mean()
"""


def test_rewards_that_are_centred_alone_without_gradients_are_told(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + REWARDS.format(shape="8, 3, 1") + TRAIN, ALONE, tmp_path)
    assert not alarms(HEAD + REWARDS.format(shape="8, 3") + TRAIN, tmp_path)
