"""The line to edit, where a helper of the program does what is wrong only for who calls it so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, in_files

CACHED = """
class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.kept = nn.Linear(4, 4), None
    def normalized(self, weight):
        return weight / weight.sum()
    def forward(self, x, weight):
        norm = self.kept
        if norm is None:
            norm = self.normalized(weight)
            self.kept = norm  # HERE
        return self.linear(x) * norm
gate, conv = nn.Parameter(torch.zeros(4)), Conv()
optimizer = torch.optim.SGD([gate, *conv.parameters()], lr=0.1)
for step in range(3):
    loss = (conv(torch.randn(8, 4), F.softplus(gate)) - 1).square().mean()
"""

TABLES = """
class Links(nn.Module):
    def __init__(self):
        super().__init__()
        self.strength, self.tables = nn.Parameter(torch.zeros(4)), {}
    def normalized(self, links):
        return links * torch.sigmoid(self.strength)
    def forward(self, name, links):
        if name not in self.tables:
            self.tables[name] = self.normalized(links)  # HERE
        return self.tables[name]
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.links, self.hop = Links(), nn.Linear(4, 4)
    def forward(self, x, links):
        table = self.links("north", links)
        return self.hop(x @ table)
model, links = Model(), torch.rand(4, 4)
def train():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = model(torch.randn(8, 4), links).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
train()
"""

SIAMESE = """
def regression({arguments}):
    target = target.detach(){inside}
    return -F.cosine_similarity(pred, target, dim=-1).mean()
encoder, predictor = nn.Linear(6, 8), nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 8))
optimizer = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.1)
for step in range(4):
    x = torch.randn(16, 6)
    z1, z2 = encoder(x + 0.1 * torch.randn(16, 6)), encoder(x + 0.1 * torch.randn(16, 6))
    p1 = predictor(z1)
    loss = regression(p1, z2){outside}
"""

FROZEN = """
class frozen:
    def __init__(self, params):
        self.params = {kept}
    def __enter__(self):
        for p in self.params:
            p.requires_grad_(False)
    def __exit__(self, *exc):
        for p in self.params:
            p.requires_grad_(True)
world, actor = nn.Linear(4, 4), nn.Linear(4, 4)
of_world = torch.optim.SGD(world.parameters(), lr=0.1)
of_actor = torch.optim.SGD(actor.parameters(), lr=0.1)
head = nn.Linear(4, 4)
of_head = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(8, 4)
    of_world.zero_grad(), of_head.zero_grad()
    (head(world(x)) - x).square().mean().backward()
    of_world.step(), of_head.step()
    with frozen(world.parameters()):
        loss = world(actor(x)).square().mean()
    of_actor.zero_grad()
    loss.backward()
    of_actor.step()
"""

AVERAGE = """from torch import nn
class Average:
    def __init__(self, model):
        self.model = model
        self.mean = {k: p.detach().clone() for k, p in model.named_parameters()}
    def put(self, values):
        for k, value in values.items():
            setattr(self.model, k, nn.Parameter(value.clone()))  # HERE
    def swapped(self):
        kept = {k: p.detach().clone() for k, p in self.model.named_parameters()}
        self.put(self.mean)
        return kept
"""

SWAPPED = """
from averages import Average
class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.average = Average(self.model)
    def step(self):
        loss = (self.model(torch.randn(8, 4)) - 1).square().mean()
        self.model.zero_grad()
        loss.backward()
        self.optimizer.step()
    def evaluate(self):
        kept = self.average.swapped()
        with torch.no_grad():
            print(self.model(torch.ones(1, 4)))
        self.average.put(kept)
trainer = Trainer()
for epoch in range(3):
    for step in range(3):
        trainer.step()
    trainer.evaluate()
"""

TEACHER = """
class Kept:
    def __init__(self, net):
        self.net, self.known = net, {}
    def logits(self, key, x):
        if key not in self.known:
            with torch.no_grad():
                self.known[key] = self.net(x)
        return self.known[key]
X = torch.randn(64, 6)
data = torch.utils.data.TensorDataset(torch.arange(64), X)
loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
student, teacher = nn.Linear(6, 3), Kept(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).eval())
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for epoch in range(3):
    for b, (ids, x) in enumerate(loader):
        target = teacher.logits(b, x)  # HERE
        loss = F.mse_loss(student(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

LOADED = """
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 1)
    def forward(self, x):
        return self.last(torch.tanh(self.first(x - self.mean)))
model = Scaled()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = 50_000 + torch.randn(32, 4)
model.load_state_dict({"norm.mean": x.mean(0)}, strict=False)  # HERE
for step in range(4):
    loss = (model(x) - 1).square().mean()
"""

FAULTS = {
    "what a helper computed is kept in an attribute two lines below": ("graph_freed", CACHED + TRAIN),
    "tables that a part of the model keeps": ("graph_freed", TABLES),
    "a prediction given as the target of a loss function": (
        "detached",
        SIAMESE.format(arguments="target, pred", inside="", outside="  # HERE") + TRAIN,
    ),
    "the argument that the function itself detaches, without such a name": (
        "detached",
        SIAMESE.replace("target", "one").format(arguments="one, pred", inside="  # HERE", outside="") + TRAIN,
    ),
    "an iterator in a context that freezes and unfreezes": (
        "requires_grad_false",
        FROZEN.format(kept="params  # HERE"),
    ),
    "the key of a cache that is given from outside": ("kept_of_other_batch", TEACHER),
    "a state of which nothing is loaded, so that a layer is saturated": ("nothing_loaded", LOADED + TRAIN),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_the_finding_stands_where_one_would_edit(case: str, tmp_path: Path) -> None:
    cause, script = FAULTS[case]
    assert_first_alarm(HEAD + script, cause, tmp_path)


def test_a_list_of_parameters_is_unfrozen_again(tmp_path: Path) -> None:
    assert alarms(HEAD + FROZEN.format(kept="list(params)"), tmp_path) == []


def test_the_order_of_a_function_is_the_cure(tmp_path: Path) -> None:
    script = SIAMESE.format(arguments="target, pred", inside="", outside="").replace("(p1, z2)", "(z2, p1)") + TRAIN
    assert alarms(HEAD + script, tmp_path) == []


def test_new_parameters_of_the_same_shapes_are_told_where_they_are_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_files({"averages": AVERAGE}, tmp_path, monkeypatch)
    first = alarms(HEAD + SWAPPED, tmp_path)[0]
    assert first.cause == "stale_optimizer_params"
    assert first.location is not None
    assert (Path(first.location.file).name, first.location.line) == ("averages.py", 8)
