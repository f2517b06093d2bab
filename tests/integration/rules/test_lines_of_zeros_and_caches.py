"""The line to edit: of zeros that a helper fills in, of a bound that holds everywhere, of what a layer keeps."""

from __future__ import annotations

import sys
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


WHITENED = (
    HEAD
    + """
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 5))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
def whiten(x, mask, dim=-1):
    mean = (x * mask).sum(dim, keepdim=True) / mask.sum(dim, keepdim=True)
    var = ((x - mean).square() * mask).sum(dim, keepdim=True) / mask.sum(dim, keepdim=True)
    return (x - mean) / (var + 1e-6).sqrt() * mask
for step in range(5):
    x, mask = torch.randn(8, 6, 10, 4), (torch.rand(8, 6, 10) < 0.8).float()
    scores = torch.distributions.Categorical(logits=policy(x))
    reward = torch.rand(8, 6)
    gain = whiten(reward[..., None].expand_as(mask), maskAXIS)  # HERE
    loss = -(scores.log_prob(scores.sample()) * gain * mask).sum() / mask.sum()
"""
    + TRAIN
)


def test_values_that_are_the_same_along_the_axis_of_their_mean_are_told(tmp_path: Path) -> None:
    assert_first_alarm(WHITENED.replace("maskAXIS", "mask"), "normalized_alone", tmp_path)
    assert not alarms(WHITENED.replace("maskAXIS", "mask, dim=1"), tmp_path)


GROWING = (
    HEAD
    + """
class Service:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    def on_change(self, count):
        grow(self.net, count)  # HERE
    def learn(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        self.net.zero_grad()
        loss.backward()
        self.optimizer.step()
service = Service(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)))
for day in range(6):
    if day == 3:
        service.on_change(3)
    service.learn(torch.randn(16, 4), torch.randn(16, service.net[2].out_features))
"""
)
GROW = """
import torch
def grow(net, count):
    new = torch.nn.Linear(net[2].in_features, count)
    net[2] = new
"""


def test_a_layer_that_is_replaced_is_told_where_the_owner_of_the_optimizer_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "growing_layers.py").write_text(GROW)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "growing_layers", raising=False)
    assert_first_alarm("from growing_layers import grow" + GROWING, "stale_optimizer_params", tmp_path)


POOLED = (
    HEAD
    + """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.norm = nn.Linear(8, 8), nn.LayerNorm(8, elementwise_affine=False)
    def forward(self, x):
        return self.norm(x + torch.tanh(self.inner(x)))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.head = Block(), nn.Linear(6, 3)
    def forward(self, x):
        return self.head(self.block(x).mean(AXES))  # HERE
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    x, y = torch.randn(16, 6, 6, 8), torch.randint(0, 3, (16,))
    loss = F.cross_entropy(net(x), y)
"""
    + TRAIN
)


def test_a_mean_in_another_function_than_the_normalization_is_told(tmp_path: Path) -> None:
    assert_first_alarm(POOLED.replace("AXES", "(2, 3)"), "cancels_to_zero", tmp_path)
    healthy = POOLED.replace("AXES", "(1, 2)").replace("nn.Linear(6, 3)", "nn.Linear(8, 3)")
    assert not alarms(healthy, tmp_path)


REACH = (
    HEAD
    + """
class Reach:
    def reset(self):
        self.place, self.goal = torch.randn(16, 2), torch.randn(16, 2)
        return torch.cat([self.place, self.goal], 1)
    def step(self, move):
        self.place = self.place + 0.3 * move
        return torch.cat([self.place, self.goal], 1), -(self.place - self.goal).norm(dim=1)
actor = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2), nn.Tanh())
critic = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
table, world, filled = torch.zeros(400, 7), Reach(), 0
seen = world.reset()
for step in range(12):
    with torch.no_grad():
        move = (actor(seen) + 0.1 * torch.randn(16, 2)).clamp(-1, 1)
    new, reward = world.step(move)
    table[filled : filled + 16] = torch.cat([seen, move, reward[:, None]], 1)
    seen, filled = new, filled + 16
    rows = table[torch.randint(0, filled, (32,))]
    loss = (critic(rows[:, :6])[:, 0] - rows[:, 6]).square().mean()
"""
    + TRAIN
)


def test_goals_that_an_environment_draws_once_are_no_noise(tmp_path: Path) -> None:
    assert "noise_drawn_once" not in [each.cause for each in alarms(REACH, tmp_path)]


SPECTRAL = (
    HEAD
    + """
low, high, head = nn.Linear(8, 4), nn.Linear(8, 4), nn.Linear(16, 3)
optimizer = torch.optim.Adam([*low.parameters(), *high.parameters(), *head.parameters()], lr=0.01)
for step in range(4):
    x, y = torch.randn(16, 8), torch.randint(0, 3, (16,))
    out = torch.zeros(16, 4, 4)
    out[:, :ROWS] = low(x)[:, None]
    out[:, -ROWS:] = high(x)[:, None]  # HERE
    loss = F.cross_entropy(head(out.flatten(1)), y)
"""
    + TRAIN
)


def test_elements_that_are_assigned_twice_are_told_at_the_second_assignment(tmp_path: Path) -> None:
    script = SPECTRAL.replace("ROWS", "4")
    assert_first_alarm(script, "masked_out", tmp_path)
    assert "overwrites all" in alarms(script, tmp_path)[0].message
    assert not alarms(SPECTRAL.replace("ROWS", "2"), tmp_path)


def test_elements_that_nothing_reads_are_not_said_to_be_overwritten(tmp_path: Path) -> None:
    script = SPECTRAL.replace("ROWS", "2").replace("out.flatten(1)", "out[:, 2:].flatten(1)").replace("16, 3", "8, 3")
    (found, *_) = alarms(script, tmp_path)
    assert found.tensors == ("low.weight", "low.bias")
    assert "overwrites" not in found.message
