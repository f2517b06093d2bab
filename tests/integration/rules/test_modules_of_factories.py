"""Functions that keep the modules which they made, and so give one to several places that asked for one each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import alarms, findings

HEAD = """
import copy
import functools
from functools import cache, lru_cache
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
"""
MADE = """
def build({arguments}):
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
"""
MODEL = """
class Model(nn.Module):
    def __init__(self, {arguments}):
        super().__init__()
        self.query = {query}
        self.doc = {doc}

    def forward(self, x, y):
        return self.query(x) @ self.doc(y).t()

model = {made}
parameters = list(model.parameters())
"""
BLOCKS = """
class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm, self.out = build(size), nn.Linear(4, 6)

    def forward(self, x):
        return x + self.out(self.norm(x))

blocks = nn.Sequential({blocks})
parameters = list(blocks.parameters())
model = lambda x, y: blocks(x) @ y.t()
"""
TRAIN = """
optimizer = torch.optim.SGD(parameters, lr=0.05)
for step in range(3):
    x = torch.randn(16, 6)
    loss = F.cross_entropy(model(x, 2 * x), torch.arange(16))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MADE_OF_SIZE = MADE.format(arguments="size")
CACHED = "@lru_cache(maxsize=None)  # HERE" + MADE_OF_SIZE
TWO = MODEL.format(arguments="size", query="build(size)", doc="build(size)", made="Model(6)")
DICT = """
CACHE = {{}}
def build(size):
    if size not in CACHE:
        CACHE[size] = nn.Linear(size, 4){}
    return CACHE[size]
"""
OWN = """
def kept(function):
    made = {}
    @functools.wraps(function)
    def wrapper(*given):
        if given not in made:
            made[given] = function(*given)
        return made[given]
    return wrapper

"""
LIST = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.towers = nn.ModuleList({towers})

    def forward(self, x, y):
        return self.towers[0](x) @ self.towers[-1](y).t()

model = Model()
parameters = list(model.parameters())
"""
PLAIN = """
class Model:
    def __init__(self):
        self.query = build(6)
        self.doc = build(6)

    def __call__(self, x, y):
        return self.query(x) @ self.doc(y).t()

model = Model()
parameters = [*model.query.parameters()]
"""
FAULTY = (
    CACHED + TWO,
    "@cache  # HERE" + MADE_OF_SIZE + TWO,
    "@functools.lru_cache  # HERE" + MADE_OF_SIZE + TWO,
    MADE_OF_SIZE.replace("build", "make") + "build = lru_cache(None)(make)  # HERE\n" + TWO,
    DICT.format("  # HERE") + TWO,
    "def build(size, cache={}):\n    tower = cache.get(size)\n    if tower is None:\n"
    "        tower = nn.Linear(size, 4)\n        cache[size] = tower  # HERE\n    return tower\n" + TWO,
    "CACHE = {}\ndef build(size):\n    try:\n        return CACHE[size]\n    except KeyError:\n"
    "        CACHE[size] = tower = nn.Linear(size, 4)  # HERE\n    return tower\n" + TWO,
    OWN + "@kept  # HERE" + MADE_OF_SIZE + TWO,
    CACHED + TWO.replace("doc = build(size)", "doc = build(6)"),
    CACHED + MODEL.format(arguments="one, two", query="one", doc="two", made="Model(build(6), build(6))"),
    CACHED + BLOCKS.format(blocks="Block(6), Block(6)"),
    CACHED + BLOCKS.format(blocks="*[Block(6) for _ in range(3)]"),
    CACHED + LIST.format(towers="build(size) for size in (6, 6)"),
    "@cache  # HERE" + MADE.format(arguments="") + LIST.format(towers="build() for _ in range(2)"),
    CACHED + LIST.format(towers="[build(6), build(6)]"),
    CACHED + PLAIN,
    CACHED + "query, doc = build(6), build(6)\nmodel = lambda x, y: query(x) @ doc(y).t()\n"
    "parameters = list(query.parameters())\n",
)  # fmt: skip
TEACHER = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher, self.same, self.query = build(6), build(6), nn.Linear(6, 4)

    def forward(self, x, y):
        return self.query(x) @ (self.teacher(y) + self.same(x)).t()

model = Model()
parameters = list(model.query.parameters())
"""
HEALTHY = (
    MADE_OF_SIZE + TWO,
    CACHED + TEACHER,
    CACHED.replace("return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))",
                   "return nn.Linear(size, 4).requires_grad_(False)") + TEACHER,
    CACHED + MODEL.format(arguments="size", query="build(size)", doc="nn.Linear(6, 4)", made="Model(6)"),
    CACHED + MODEL.format(arguments="size", query="build(size)", doc="self.query", made="Model(6)"),
    CACHED + MODEL.format(arguments="size, tied=True", query="build(size)",
                          doc="self.query if tied else build(size)", made="Model(6)"),
    CACHED + MODEL.format(arguments="tower", query="tower", doc="tower", made="Model(build(6))"),
    CACHED + MODEL.format(arguments="size", query="build(size)", doc="build((size, 1))", made="Model(6)"),
    CACHED + MODEL.format(arguments="size", query="build(size)", doc="copy.deepcopy(build(size))", made="Model(6)"),
    CACHED + BLOCKS.format(blocks="*[Block(size) for size in (6, '6')]"),
    # Made anew at each call: what the dict has is a class, or a number.
    "KINDS = {}\ndef build(size):\n    if size not in KINDS:\n        KINDS[size] = nn.Linear\n"
    "    kind = KINDS[size]\n    return kind(6, 4)\n" + TWO,
    "def build(size):\n    found = {}\n    if size not in found:\n        found[size] = nn.Linear(6, 4)\n"
    "    return found[size]\n" + TWO,
    # Asked for in training and again when it is scored.
    CACHED + "encoder = build(6)\nmodel = lambda x, y: encoder(x) @ encoder(y).t()\n"
    "parameters = list(encoder.parameters())\ndef score():\n"
    "    encoder = build(6)\n    return encoder(torch.ones(1, 6))\n"
    "score()\n",
)  # fmt: skip
SAID = (
    CACHED.replace("def build(size):", 'def build(size):\n    """A tower, shared by all that have its size."""') + TWO,
    CACHED + TWO.replace("self.doc = build(size)", "self.doc = build(size)  # tied to the query's"),
    CACHED + TWO.replace("Model", "Siamese"),
    "@cache" + MADE.format(arguments="") + TWO.replace("build(size)", "build()"),
    # Two classes with the same encoder.
    CACHED + "class Actor(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.encoder, self.out = build(6), nn.Linear(4, 4)\n"
    "    def forward(self, x):\n        return self.out(self.encoder(x))\n"
    "class Critic(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.encoder, self.out = build(6), nn.Linear(4, 4)\n"
    "    def forward(self, x):\n        return self.out(self.encoder(x)).tanh()\n"
    "actor, critic = Actor(), Critic()\nparameters = list(nn.ModuleList([actor, critic]).parameters())\n"
    "model = lambda x, y: actor(x) @ critic(y).t()\n",
)  # fmt: skip


@pytest.mark.parametrize("program", FAULTY)
def test_a_function_that_returns_one_module_again_is_told(program: str, tmp_path: Path) -> None:
    script = HEAD + program + TRAIN
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    found = [(each.cause, each.location and each.location.line) for each in alarms(script, tmp_path)]
    assert found == [("default_is_one_module", here)]


def test_the_function_may_be_in_another_file_than_its_calls(tmp_path: Path) -> None:
    (tmp_path / "made_towers.py").write_text(HEAD + CACHED)
    script = f"{HEAD}from made_towers import build\n{TWO}{TRAIN}"
    (found,) = alarms(script, tmp_path)
    place, asked = found.location, found.symptom_location
    assert place is not None and asked is not None
    assert (Path(place.file).name, place.line) == ("made_towers.py", HEAD.count("\n") + 1)
    assert (Path(asked.file).name, script.splitlines()[asked.line - 1].strip()) == (
        "train.py",
        "self.doc = build(size)",
    )


@pytest.mark.parametrize("program", HEALTHY)
def test_modules_of_their_own_and_those_taken_once_are_left_alone(program: str, tmp_path: Path) -> None:
    assert "default_is_one_module" not in [each.cause for each in findings(HEAD + program + TRAIN, tmp_path)]


@pytest.mark.parametrize("program", SAID)
def test_a_module_that_is_meant_to_be_one_is_only_noted(program: str, tmp_path: Path) -> None:
    found = [each for each in findings(HEAD + program + TRAIN, tmp_path) if each.cause == "default_is_one_module"]
    assert [each.severity for each in found] == ["note"]


@pytest.mark.parametrize(
    ("advice", "old", "new"),
    [
        ("take @lru_cache(maxsize=None) off build", "@lru_cache(maxsize=None)  # HERE", ""),
        ("copy.deepcopy(build(...))", "self.doc = build(size)", "self.doc = copy.deepcopy(build(size))"),
    ],
)
def test_the_advice_helps(advice: str, old: str, new: str, tmp_path: Path) -> None:
    script = HEAD + CACHED + TWO + TRAIN
    (found,) = alarms(script, tmp_path)
    assert advice in (found.fix or "")
    assert alarms(script.replace(old, new), tmp_path) == []
