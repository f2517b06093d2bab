"""Layers that are the default of an argument or of a field, and so are one for all objects that take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import alarms, assert_first_alarm, findings

HEAD = """
import copy
from dataclasses import dataclass, field
import torch
from torch import nn

"""
BLOCK = """
class Block(nn.Module):
    def __init__(self, {arguments}):
        super().__init__()
        self.linear, self.act = nn.Linear(8, 8), {act}

    def forward(self, x):
        return x + self.act(self.linear(x))

"""
CONFIG = """
@dataclass
class Config:
    act: nn.Module = {default}

"""
NET = """
net = nn.Sequential({blocks}, nn.Linear(8, 1))
parameters = list(net.parameters())
"""
TRAIN = """
optimizer = torch.optim.SGD(parameters, lr=0.05)
for step in range(3):
    x = torch.randn(16, 8)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PART = """
class Part(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, self.out = base, nn.Linear(8, 8)

    def forward(self, x):
        return self.out(self.base(x)).tanh()

"""
ATTRIBUTE = """
class Block(nn.Module):
    base = nn.Linear(8, 8){rest}

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.linear({owner}.base(x)).relu()

net = nn.Sequential(Block(), Block(), nn.Linear(8, 1))
parameters = [*net.parameters(){more}]
"""
ARGUMENT = BLOCK.format(arguments="act=nn.PReLU()", act="act").replace("act=nn.PReLU()):", "act=nn.PReLU()):  # HERE")
FIELD = BLOCK.format(arguments="config", act="config.act")
MANY, TWO = "*[Block({}) for _ in range(3)]", "Block({0}), Block({0})"
ONE_OBJECT = """
class Net(nn.Module):
    def __init__(self, base=nn.Linear(8, 8)):
        super().__init__()
        self.left, self.right, self.head = {parts}, nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.left(x) - self.right(x))

net = Net()
parameters = list(net.parameters())
"""
FAULTY = (
    ARGUMENT + NET.format(blocks=MANY.format("")),
    ARGUMENT.replace("self, act", "self, *, act") + NET.format(blocks=TWO.format("")),
    ARGUMENT.replace("nn.PReLU()", "nn.Sequential(nn.Linear(8, 8), nn.PReLU())") + NET.format(blocks=TWO.format("")),
    ARGUMENT + "class Wide(Block):\n    pass\n" + NET.format(blocks="Wide(), Block()"),
    # Of two networks that no other holds, the shared layer has the name of the first one only.
    ARGUMENT
    + "a, b, head = Block(), Block(), nn.Linear(8, 1)\n"
    + "parameters = list(nn.ModuleList([a, b, head]).parameters())\nnet = lambda x: head(b(a(x)))\n",
    "def block(size, act=nn.PReLU()):  # HERE\n    return nn.Sequential(nn.Linear(8, size), act)\n"
    + NET.format(blocks="block(8), block(8)"),
    CONFIG.format(default="nn.PReLU()  # HERE") + FIELD + NET.format(blocks=TWO.format("Config()")),
    CONFIG.format(default="field(default=nn.PReLU())  # HERE") + FIELD + NET.format(blocks=MANY.format("Config()")),
    CONFIG.format(default="nn.PReLU()  # HERE") + FIELD + "one = Config()\n" + NET.format(blocks=MANY.format("one")),
    ATTRIBUTE.format(rest="  # HERE", owner="self", more=""),
)  # fmt: skip
HEALTHY = (
    BLOCK.format(arguments="act=nn.ReLU()", act="act") + NET.format(blocks=MANY.format("")),
    BLOCK.format(arguments="act=None", act="act or nn.PReLU()") + NET.format(blocks=MANY.format("")),
    BLOCK.format(arguments="act=nn.PReLU", act="act()") + NET.format(blocks=MANY.format("")),
    BLOCK.format(arguments="act=lambda: nn.PReLU()", act="act()") + NET.format(blocks=MANY.format("")),
    BLOCK.format(arguments="act=nn.PReLU()", act="copy.deepcopy(act)") + NET.format(blocks=MANY.format("")),
    BLOCK.format(arguments="act=nn.PReLU()", act="act") + NET.format(blocks=MANY.format("nn.PReLU()")),
    BLOCK.format(arguments="act=nn.PReLU()", act="act") + NET.format(blocks="Block()"),
    CONFIG.format(default="field(default_factory=lambda: nn.PReLU())")
    + FIELD
    + NET.format(blocks=MANY.format("Config()")),
    # One object gives its layer to several parts.
    PART + ONE_OBJECT.format(parts="Part(base), Part(base)"),
    PART + "class Other(Part):\n    pass\n" + ONE_OBJECT.format(parts="Part(base), Other(base)"),
    PART + "class Other(Part):\n    pass\n" + CONFIG.format(default="nn.Linear(8, 8)")
    + "config = Config()\n" + NET.format(blocks="Part(config.act), Other(config.act)"),
    # A weight that another layer of the same object has, too.
    PART + ONE_OBJECT.format(parts="base, nn.Linear(8, 8)").replace(
        "\n    def forward", "        self.right.weight = base.weight\n\n    def forward"
    ),
    # A fixed layer, and one that an optimizer was given by name.
    ATTRIBUTE.format(rest=".requires_grad_(False)", owner="self", more=""),
    ATTRIBUTE.format(rest="", owner="self", more=", *net[0].base.parameters()"),
)  # fmt: skip
SAID = (
    ATTRIBUTE.format(rest="", owner="Block", more=""),
    CONFIG.format(default="nn.PReLU()  # one for all, shared") + FIELD + NET.format(blocks=MANY.format("Config()")),
    FIELD.replace("config.act", "shared").replace("config", "shared=nn.PReLU()") + NET.format(blocks=MANY.format("")),
)


@pytest.mark.parametrize("program", FAULTY)
def test_a_default_that_is_one_layer_is_told(program: str, tmp_path: Path) -> None:
    script = HEAD + program + TRAIN
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    found = [(each.cause, each.location and each.location.line) for each in alarms(script, tmp_path)]
    assert found == [("default_is_one_module", here)]


@pytest.mark.parametrize("program", HEALTHY)
def test_layers_of_their_own_and_shared_ones_are_left_alone(program: str, tmp_path: Path) -> None:
    assert "default_is_one_module" not in [each.cause for each in findings(HEAD + program + TRAIN, tmp_path)]


@pytest.mark.parametrize("program", SAID)
def test_a_layer_that_is_said_to_be_shared_is_only_noted(program: str, tmp_path: Path) -> None:
    found = [each for each in findings(HEAD + program + TRAIN, tmp_path) if each.cause == "default_is_one_module"]
    assert [each.severity for each in found] == ["note"]


UNITS = """
import torch.nn.functional as F
class Unit(nn.Module):
    def __init__(self, norm, distance):
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 3, padding=distance, dilation=distance)
        self.norm = norm  # HERE
    def forward(self, x):
        return x + torch.relu(self.norm(self.conv(x)))
class Net(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.units = nn.Sequential(*[Unit(norm, 2 ** i) for i in range(3)])
        self.head = nn.Linear(8, 2)
    def forward(self, x):
        return self.head(self.units(x).amax(-1))
net = Net(nn.BatchNorm1d(8))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(16, 8, 12)
    y = (x.mean((1, 2)) > 0).long()
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_batch_normalization_that_modules_were_given_is_told(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + UNITS, "default_is_one_module", tmp_path)
    cured = UNITS.replace("self.norm = norm", "self.norm = copy.deepcopy(norm)")
    assert alarms(HEAD + cured, tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.norm = norm", "self.norm = norm  # one for all units, shared"),
        ("nn.BatchNorm1d(8)", "nn.GroupNorm(2, 8)"),
        ("[Unit(norm, 2 ** i) for i in range(3)]", "[Unit(norm, 1)] * 3"),
        ("self.conv = nn.Conv1d(8, 8, 3, padding=distance, dilation=distance)", "self.conv = nn.Identity()"),
    ],
)
def test_what_is_shared_on_purpose_has_no_alarm_for_its_statistics(old: str, new: str, tmp_path: Path) -> None:
    found = alarms(HEAD + UNITS.replace(old, new), tmp_path)
    assert not [each for each in found if each.cause == "default_is_one_module"]
