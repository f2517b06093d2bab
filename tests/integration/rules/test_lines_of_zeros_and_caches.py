"""The line to edit: of zeros that a helper fills in, of a bound that holds everywhere, of what a layer keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

GATED = (
    HEAD
    + """
def fill(layer, gain=1.0):
    nn.init.xavier_uniform_(layer.weight, gain=gain)
    nn.init.zeros_(layer.bias)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.out, self.gate = nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, 8)
        FIRST
        fill(self.inner)
        SECOND
    def forward(self, x, c):
        return x + self.gate(c) * self.out(torch.relu(self.inner(x)))
block, head = Block(), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*block.parameters(), *head.parameters()], lr=0.01)
for step in range(4):
    x, c = torch.randn(16, 8), torch.randn(16, 8)
    loss = (head(block(x, c)) - 1).square().mean()
"""
    + TRAIN
)
BY_HAND = "nn.init.zeros_(self.gate.weight); nn.init.zeros_(self.gate.bias)"
OF_OUT = "nn.init.zeros_(self.out.weight)  # HERE\n        nn.init.zeros_(self.out.bias)"


@pytest.mark.parametrize("second", ["fill(self.out, gain=0.0)  # HERE", OF_OUT], ids=["a helper", "two lines"])
def test_two_factors_of_zeros_are_told_where_the_weights_are_filled(second: str, tmp_path: Path) -> None:
    assert_first_alarm(GATED.replace("FIRST", BY_HAND).replace("SECOND", second), "masked_out", tmp_path)


ACTOR = (
    HEAD
    + """
def head(gain=0.01):
    layer = nn.Linear(32, 2)
    nn.init.orthogonal_(layer.weight, gain=gain)
    nn.init.zeros_(layer.bias)
    return layer
class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.mean, self.log_std = head(), head()
    def forward(self, x):
        h = self.body(x)
        return torch.distributions.Normal(self.mean(h), self.log_std(h).clamp(-5, MOST).exp())  # HERE
actor = Actor()
critic = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
for step in range(4):
    x = torch.randn(64, 5)
    found = actor(x)
    action = found.rsample()
    loss = (0.05 * found.log_prob(action).sum(1) - critic(torch.cat([x, action], 1))[:, 0]).mean()
"""
    + TRAIN
)


def test_a_bound_that_holds_everywhere_is_told_beside_a_steep_chain(tmp_path: Path) -> None:
    assert_first_alarm(ACTOR.replace("MOST", "-1"), "saturation", tmp_path)
    assert "saturation" not in [each.cause for each in alarms(ACTOR.replace("MOST", "2"), tmp_path)]


KEPT = (
    HEAD
    + """
weight = nn.Parameter(torch.zeros(8, 8))
def normalized(w):
    total = w.sum(1, keepdim=True)
    return w / total, total
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.kept = nn.Linear(8, 8), None
    def forward(self, x, w):
        if self.kept is not None:
            mix, total = self.kept
        else:
            mix, total = normalized(w)  # HERE
            self.kept = (mix, total)
        return torch.tanh(self.lin(mix @ x))
layers = nn.ModuleList([Layer(), Layer()])
optimizer = torch.optim.Adam([weight, *layers.parameters()], lr=0.01)
for step in range(4):
    x = torch.randn(8, 8)
    h = x
    for layer in layers:
        h = layer(h, F.softplus(weight))
    loss = (h - x).square().mean()
"""
    + TRAIN
)


def test_what_a_layer_keeps_for_itself_is_told_where_it_computes_it(tmp_path: Path) -> None:
    assert_first_alarm(KEPT, "graph_freed", tmp_path)


PARTS = (
    HEAD
    + """
one, other = nn.Linear(6, 8), nn.Linear(4, 8)
optimizer = torch.optim.Adam([*one.parameters(), *other.parameters()], lr=0.01)
def contrast(u, v):
    return F.cross_entropy(F.normalize(u, dim=1) @ F.normalize(v, dim=1).T / 0.1, torch.arange(len(u)))
for step in range(4):
    x, y = torch.randn(8, 6), torch.randn(8, 4)
    optimizer.zero_grad()
    for u, v in zip(x.split(ROWS), y.split(ROWS)):  # HERE
        (contrast(one(u), other(v)) * len(u) / 8).backward()
    optimizer.step()
"""
)


def test_parts_of_one_row_are_told_where_the_batch_is_split(tmp_path: Path) -> None:
    assert_first_alarm(PARTS.replace("ROWS", "1"), "zero_gradient_op", tmp_path)
    assert not alarms(PARTS.replace("ROWS", "4"), tmp_path)
