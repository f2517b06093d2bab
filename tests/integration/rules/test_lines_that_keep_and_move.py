"""Lines that one edits, of several that have to do with a fault: those that keep a result for later, and those that
make parameters after the optimizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, in_files

ROADS = """
from functools import cached_property, lru_cache

class Roads(nn.Module):
    def __init__(self):
        super().__init__()
        self.strength, self.kept = nn.Parameter(torch.zeros(4, 4)), {}

    def build(self):
        made = torch.sigmoid(self.strength)
        return made / made.sum(1, keepdim=True)
"""
FORECAST = (
    """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.roads, self.head = Roads(), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(torch.relu(x @ self.roads.table()))

@torch.no_grad()
def evaluate(net, x, y):
    return F.mse_loss(net(x), y).item()

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(16, 4), torch.randn(16, 1)
evaluate(net, x, y)
for step in range(4):
    loss = F.mse_loss(net(x), y)
"""
    + TRAIN
)
UNITS = """
from torch.nn.utils.parametrizations import weight_norm

class Units(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))

    def normalize(self):
        for each in (self.first, self.last):
            weight_norm(each)

def train(net, optimizer):
    for step in range(3):
        loss = net(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
KEPT_TABLES = """
class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.known, self.newest = nn.Linear(1, 3), {}, None

    def build(self, n):
        table = self.layer(torch.arange(n)[:, None] / n).tanh()
        return 1 + table

    def again(self, n):
        return self.build(n)

    def forward(self, n):
        if n not in self.known and self.newest is None:
            KEEP
        return self.known[n]

table, head = Table(), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.1)
for n in [4, 5, 4]:
    loss = head(torch.randn(n, 3) + table(n)).square().mean()
"""
WAVES = """
def encode(x):
    return torch.cat([x.sin(), x.cos()], dim=1)

def slope(u, x):
    return torch.autograd.grad(u.sum(), x, create_graph=True)[0]
"""

WRONG: dict[str, tuple[str, str]] = {
    "a cached property, read first under no_grad": (
        "no_grad_block",
        ROADS
        + """
    @cached_property  # HERE
    def weights(self):
        return self.build()

    def table(self):
        return self.weights
"""
        + FORECAST,
    ),
    "lru_cache()": (
        "no_grad_block",
        ROADS
        + """
    @lru_cache(maxsize=None)  # HERE
    def table(self):
        return self.build()
"""
        + FORECAST,
    ),
    "an attribute that is set once, by a method that returns the result": (
        "no_grad_block",
        ROADS
        + """
    def table(self):
        if not hasattr(self, "weights"):
            self.weights = self.build()  # HERE
        return self.weights
"""
        + FORECAST,
    ),
    "a dict that gets the result under a name": (
        "no_grad_block",
        ROADS
        + """
    def table(self):
        if "table" not in self.kept:
            made = torch.sigmoid(self.strength)
            made = made / made.sum(1, keepdim=True)
            self.kept["table"] = made  # HERE
        return self.kept["table"]
"""
        + FORECAST,
    ),
    "a dict that a helper fills": (
        "no_grad_block",
        ROADS
        + """
    def table(self):
        return self.once("table", self.build)

    def once(self, name, make):
        if name not in self.kept:
            self.kept.update({name: make()})  # HERE
        return self.kept[name]
"""
        + FORECAST,
    ),
    "weights normalized by the method that trains": (
        "stale_optimizer_params",
        UNITS
        + """
class Trainer:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def fit(self):
        self.net.normalize()  # HERE
        train(self.net, self.optimizer)

def main():
    trainer = Trainer(Units())
    trainer.fit()

main()
""",
    ),
    "weights normalized by a function that trains": (
        "stale_optimizer_params",
        UNITS
        + """
def fit(net, optimizer):
    net.normalize()  # HERE
    train(net, optimizer)

def main():
    net = Units()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    fit(net, optimizer)

main()
""",
    ),
    "weights normalized beside the optimizer": (
        "stale_optimizer_params",
        UNITS
        + """
def main():
    net = Units()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.normalize()  # HERE
    train(net, optimizer)

main()
""",
    ),
    "layers that a function replaces by adapters, behind the second of two optimizers": (
        "stale_optimizer_params",
        """
class Adapter(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down, self.up = nn.Parameter(torch.randn(2, base.in_features)), nn.Parameter(torch.zeros(8, 2))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T

def adapt(net):
    net[0] = Adapter(net[0])
    return net

def train(net, optimizer):
    for step in range(4):
        loss = F.mse_loss(net(torch.randn(16, 4)), torch.randn(16, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def main():
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    train(net, torch.optim.SGD(net.parameters(), lr=0.1))
    net.requires_grad_(False)
    net[2] = nn.Linear(8, 1)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
    net = adapt(net)  # HERE
    train(net, optimizer)

main()
""",
    ),
    "features of the points, computed when the object is made, and refused by a derivative": (
        "graph_freed",
        WAVES
        + """
class Points:
    def __init__(self):
        self.x = torch.linspace(0, 1, 8)[:, None].requires_grad_()
        self.waves = encode(self.x)  # HERE

    def residual(self, net):
        u = net(self.waves)
        return (slope(u, self.x) + u).square().mean()

net, points = nn.Linear(2, 1), Points()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = points.residual(net)
"""
        + TRAIN,
    ),
    "a table that a method returns, and that is kept for each size": (
        "graph_freed",
        KEPT_TABLES.replace("KEEP", "self.known[n] = self.build(n)  # HERE") + TRAIN,
    ),
    "one that goes through another method, into an attribute": (
        "graph_freed",
        KEPT_TABLES.replace("KEEP", "self.newest = self.again(n)  # HERE")
        .replace("self.known[n]", "self.newest")
        .replace("5, 4]", "4, 4]")
        + TRAIN,
    ),
    "one that a decorator keeps": (
        "graph_freed",
        KEPT_TABLES.replace("    def build(", "    @lru_cache(maxsize=None)  # HERE\n    def build(")
        .replace("class Table", "from functools import lru_cache\nclass Table")
        .replace("KEEP", "return self.build(n)")
        + TRAIN,
    ),
    "one that is changed where it is kept": (
        "graph_freed",
        KEPT_TABLES.replace("KEEP", "self.known[n] = self.build(n) * 2  # HERE") + TRAIN,
    ),
    "one that is kept in a variable beside": (
        "graph_freed",
        KEPT_TABLES.replace("KEEP", "made = self.build(n)\n            self.known[n] = made  # HERE") + TRAIN,
    ),
    "the same in a function, before its loop": (
        "graph_freed",
        WAVES
        + """
def train(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.linspace(0, 1, 8)[:, None].requires_grad_()
    waves = encode(x)  # HERE
    for step in range(3):
        u = net(waves)
        loss = (slope(u, x) + u).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

train(nn.Linear(2, 1))
""",
    ),
    "a model of several layers that gets one sample at a time": (
        "batches_of_one_sample",
        """
class Clips(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm, self.head = nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.Linear(4, 2)
        self.after = nn.BatchNorm1d(2)

    def forward(self, x):
        return self.after(self.head(torch.relu(self.norm(self.stem(x))).amax(2)[:, None].expand(1, 2, 4)))

def losses(net, clips):
    return torch.stack([net(each[None]).square().mean() for each in clips])  # HERE

def main():
    net, clips = Clips(), [torch.randn(3, 8 + k) for k in range(6)]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        losses(net, clips).mean().backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        net(clips[0][None])

main()
""",
    ),
    "the index that a line takes with the value": (
        "index_as_value",
        """
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    s, s2, r, a = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16), torch.randint(3, (16, 1))
    with torch.no_grad():
        ranked, order = net(s2).sort(dim=1)
        best = order[:, -1]  # HERE
        goal = r + 0.9 * best
    loss = F.mse_loss(net(s).gather(1, a)[:, 0], goal)
"""
        + TRAIN,
    ),
    "two losses that share a part, whose lines differ": (
        "graph_freed",
        """
body, first, second = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*body.parameters(), *first.parameters(), *second.parameters()], lr=0.1)
hidden = body(torch.randn(8, 4))
one, other = first(hidden).square().mean(), second(hidden).mean()
one.backward()  # HERE
other.backward()
optimizer.step()
""",
    ),
    "an embedding under no_grad that is kept on the line of the block": (
        "no_grad_block",
        """
encoder, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
with torch.no_grad():  # HERE
    kept = encoder(torch.randn(8, 4))
for step in range(4):
    loss = head(kept).square().mean()
"""
        + TRAIN,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_first_alarm_names_the_line_to_edit(name: str, tmp_path: Path) -> None:
    cause, script = WRONG[name]
    assert_first_alarm(HEAD + script, cause, tmp_path)


GROWN = (
    HEAD
    + """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))

    def add_classes(self, count):
        self.head = nn.Linear(8, 3 + count)

def optimizer_for(model):
    return torch.optim.Adam(model.parameters(), lr=1e-2)

model = Tagger()
optimizer = optimizer_for(model)
model.add_classes(2)  # HERE
for step in range(6):
    loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(5, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)


def test_a_method_that_grows_a_model_after_the_optimizer_was_made_is_told_at_its_call(tmp_path: Path) -> None:
    assert_first_alarm(GROWN, "stale_optimizer_params", tmp_path)
    assert "'head' was replaced in train.py:" in alarms(GROWN, tmp_path)[0].message


STORE = """
import copy
class Store:
    def __init__(self, model):
        self.weights = copy.deepcopy(model.state_dict())
    def restore(self, model):
        model.load_state_dict(self.weights, assign=True)
"""
RESTORED = """
from own_store import Store
class Tuner:
    def __init__(self, model, store):
        self.model, self.store = model, store
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    def begin(self):
        self.store.restore(self.model)
    def fit(self):
        self.begin()
        for step in range(6):
            loss = self.model(torch.randn(8, 4)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
model = nn.Linear(4, 1)
Tuner(model, Store(model)).fit()
"""


def test_a_state_that_is_assigned_in_another_file_is_told_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = alarms(HEAD + in_files({"own_store": STORE}, tmp_path, monkeypatch) + RESTORED, tmp_path)
    assert [(each.cause, each.location and Path(each.location.file).name) for each in found] == [
        ("stale_optimizer_params", "own_store.py")
    ]
    assert "leave assign=True out" in (found[0].fix or "")


DISTILLED = """
def made():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
x, y = torch.randn(64, 4), torch.randint(0, 3, (64,))
teacher = made()
optimizer = torch.optim.Adam(teacher.parameters(), lr=0.01)
for step in range(4):
    loss = F.cross_entropy(teacher(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
teacher.requires_grad_(False)
student, match = made(), nn.Linear(3, 3)
optimizer = torch.optim.Adam([*GIVEN.parameters(), *match.parameters()], lr=0.01)  # HERE
for step in range(4):
    loss = F.cross_entropy(student(x), y) + F.mse_loss(match(student(x)), teacher(x))
"""


def test_an_optimizer_that_was_given_another_model_is_told_at_its_own_line(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + DISTILLED.replace("GIVEN", "teacher") + TRAIN, "stale_optimizer_params", tmp_path)
    assert not alarms(HEAD + DISTILLED.replace("GIVEN", "student") + TRAIN, tmp_path)


ADAPTED = """
def adapt(model, x, y):
    fast = copy.deepcopy(model)
    for _ in range(3):
        gradients = torch.autograd.grad(F.mse_loss(fast(x), y), list(fast.parameters()))
        with torch.no_grad():
            for p, g in zip(fast.parameters(), gradients):
                MOVE
    return fast
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(4):
    optimizer.zero_grad()
    for task in range(2):
        x = torch.randn(16, 2)
        fast = adapt(model, x[:8], x[:8, :1])
        gradients = torch.autograd.grad(F.mse_loss(fast(x[8:]), x[8:, :1]), list(fast.parameters()))
        for p, g in zip(model.parameters(), gradients):
            p.grad = g if p.grad is None else p.grad + g
    optimizer.step()
"""


def test_an_update_that_is_thrown_away_comes_before_copies_that_no_optimizer_has(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + ADAPTED.replace("MOVE", "p = p - 0.1 * g  # HERE"), "update_discarded", tmp_path)
    assert not alarms(HEAD + ADAPTED.replace("MOVE", "p.sub_(0.1 * g)"), tmp_path)
