"""Keys of ``functional_call()`` that name nothing which the module has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import alarms, findings

HEAD = """
import torch
from torch import nn
from torch.func import functional_call, vmap
import torch.nn.functional as F
torch.manual_seed(0)

class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 6)
        self.register_buffer("gain", torch.ones(6))
        self.register_buffer("shift", torch.zeros(6))

    def forward(self, x):
        return self.linear(x) * self.gain + self.shift{more}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Scaled()])
        self.out = nn.Linear(6, 1)

    def forward(self, x):
        return self.out(torch.sin(self.layers[0](x)))

class Hyper(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain, self.shift = nn.Linear(3, 6), nn.Linear(3, 6)
        self.free = nn.Parameter(torch.zeros(6))

    def forward(self, z):
"""
FUNCTION = HEAD.replace("{more}", "")
TRAIN = """
net, hyper = Net(), Hyper()
optimizer = torch.optim.Adam([*net.parameters(), *hyper.parameters()], lr=0.01)
for step in range(4):
    z, x = torch.randn(3), torch.randn(8, 4)
    mods = hyper(z)
    loss = F.mse_loss({answer}, x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CALLED = TRAIN.replace("{answer}", "functional_call(net, mods, (x,))")
OVER_SAMPLES = (
    TRAIN.replace("torch.randn(3)", "torch.randn(8, 3)")
    .replace("{answer}", "vmap(lambda m, q: functional_call(net, m, (q,)))(mods, x)")
    .replace("nn.Parameter(torch.zeros(6))", "nn.Parameter(torch.zeros(8, 6))")
)
WRITTEN = """
        mods = {"layers.0.shift": self.shift(z) + self.free}
        for i in range(1):
            mods[f"layers.{i}.scale"] = 1 + self.gain(z)  # HERE
        return mods
"""
AS_DICT = """
        return {
            "layers.0.shift": self.shift(z) + self.free,
            "layers.0.scale": 1 + self.gain(z),  # HERE
        }
"""
IN_VARIABLES = """
        gain = self.gain(z)
        scale = 1 + gain
        mods = {"layers.0.shift": self.shift(z) + self.free}
        mods["layers.0.scale"] = scale  # HERE
        return mods
"""
PARAMETER = """
        mods = {"layers.0.gain": 1 + self.gain(z) + self.shift(z)}
        mods["layers.0.offset"] = self.free  # HERE
        return mods
"""
PART = """
        one, two = torch.cat([self.gain(z), self.shift(z)]).chunk(2)
        mods = {"layers.0.shift": one + self.free}
        mods["layers.0.scale"] = 1 + two  # HERE
        return mods
"""
AT_TOP = """
        mods = {"layers.0.shift": self.shift(z) + self.free}
        mods["gain"] = 1 + self.gain(z)  # HERE
        return mods
"""
FAULTY = (
    FUNCTION + WRITTEN + CALLED,
    FUNCTION + WRITTEN + OVER_SAMPLES,
    FUNCTION + AS_DICT + CALLED,
    FUNCTION + AS_DICT + OVER_SAMPLES,
    FUNCTION + IN_VARIABLES + CALLED,
    FUNCTION + IN_VARIABLES + OVER_SAMPLES,
    FUNCTION + PARAMETER + CALLED,
    FUNCTION + PART + CALLED,
    FUNCTION + AT_TOP + CALLED,
)
RIGHT = WRITTEN.replace("scale", "gain")
HEALTHY = (
    FUNCTION + RIGHT + CALLED,
    FUNCTION + RIGHT + OVER_SAMPLES,
    # The module has such an attribute, or asks for one.
    FUNCTION.replace("        self.linear =", "        self.scale = None\n        self.linear =")
    .replace("* self.gain", "* (self.gain if self.scale is None else self.scale)") + WRITTEN + CALLED,
    HEAD.replace("{more}", " + getattr(self, 'scale', torch.zeros(6))") + WRITTEN + CALLED,
    # One dict for the module, and for what follows it.
    FUNCTION + RIGHT.replace("return mods", "mods['temperature'] = self.free.exp().mean()\n        return mods")
    + TRAIN.replace("{answer}", "functional_call(net, mods, (x,)) * mods['temperature']"),
    # Steps of an inner loop, with weights of the module itself.
    FUNCTION + RIGHT + TRAIN.replace("    mods = hyper(z)", "    mods = dict(net.named_parameters())\n"
    "    inner = functional_call(net, mods, (x,)).square().mean()\n"
    "    grads = torch.autograd.grad(inner, list(mods.values()), create_graph=True)\n"
    "    mods = {name: p - 0.1 * g for (name, p), g in zip(mods.items(), grads)}\n"
    "    mods = {**mods, **hyper(z)}").replace("{answer}", "functional_call(net, mods, (x,))"),
    # Without any training.
    FUNCTION + WRITTEN + "\nfunctional_call(Net(), Hyper()(torch.randn(3)), (torch.randn(8, 4),))\n",
)  # fmt: skip


@pytest.mark.parametrize("script", FAULTY)
def test_a_key_that_names_nothing_is_told_where_it_is_written(script: str, tmp_path: Path) -> None:
    here = next(number for number, line in enumerate(script.splitlines(), start=1) if line.endswith("# HERE"))
    found = [(each.cause, each.location and each.location.line) for each in alarms(script, tmp_path)]
    assert found == [("key_names_nothing", here)]


@pytest.mark.parametrize("script", HEALTHY)
def test_keys_that_something_reads_are_left_alone(script: str, tmp_path: Path) -> None:
    assert "key_names_nothing" not in [each.cause for each in findings(script, tmp_path)]


def test_it_says_what_the_module_has_there(tmp_path: Path) -> None:
    (found,) = alarms(FUNCTION + WRITTEN + CALLED, tmp_path)
    assert "'layers.0.scale' names no parameter or buffer of Net" in found.message
    assert "layers.0 has gain" in found.message
    assert "'layers.{i}.gain'" in (found.fix or "")
    assert found.tensors == ("hyper.gain.weight", "hyper.gain.bias")


def test_a_key_that_no_line_writes_is_told_at_the_call(tmp_path: Path) -> None:
    written = WRITTEN.replace('f"layers.{i}.scale"', '"layers.%d.scale" % i')
    script = FUNCTION + written + CALLED
    (found,) = alarms(script, tmp_path)
    line = script.splitlines()[found.location.line - 1] if found.location else ""
    assert (found.cause, "functional_call" in line) == ("key_names_nothing", True)


def test_strict_calls_raise_as_without_a_recording(tmp_path: Path) -> None:
    found = findings(FUNCTION + WRITTEN + CALLED.replace("(x,))", "(x,), strict=True)"), tmp_path)
    assert "key_names_nothing" not in [each.cause for each in found]
