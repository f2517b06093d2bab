"""Needless use of memory is noted, and programs that need the memory are not."""

from __future__ import annotations

import warnings
from pathlib import Path
from textwrap import dedent

import pytest

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.rules import RULES
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan, RunLimits
from gradviz.recording.script_runner import run

BEGINNING = """\
import torch
from torch import nn
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, x):
        h = self.first(x).relu()
        return self.last(h)

net, other = Net(), Net()
x, y = torch.randn(5, 3), torch.randn(5, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def notes_in(program: str, folder: Path, limits: RunLimits | None = None) -> list[tuple[str, int | None]]:
    """Causes and lines of the cost rules; line 1 is the first after the beginning."""
    script = folder / "train.py"
    script.write_text(BEGINNING + dedent(program))
    plan = RecordingPlan(backward=None, keep_going=True, calls=True, for_pictures=False, limits=limits or RunLimits())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Torch's own, on what the script does wrong.
        capture = run(find_script(str(script)), (), plan).capture
    before = BEGINNING.count("\n")
    return [
        (each.cause, None if each.location is None else each.location.line - before)
        for each in check_case(Case(capture), RULES).findings
        if each.code.startswith("GV90")
    ]


COSTLY = {
    "validation after each epoch": (
        "idle_graph", 3,
        "for _ in range(2):\n    net(x).sum().backward()\n    print(net(y.expand(5, 3)).mean().item())\n",
    ),
    "a generator of which only a detached copy is used": (
        "idle_graph", 1, "fake = other(x)\n(net(x) * fake.detach()).sum().backward()\n",
    ),
    "validation before a closure": (
        "idle_graph", 4,
        "def closure():\n    loss = net(x).sum()\n    loss.backward()\nfor _ in range(2): score = net(x).max()\n"
        "optimizer.step(closure)\n",
    ),
    "one loss with retain_graph": ("needless_retain_graph", 1, "net(x).sum().backward(retain_graph=True)\n"),
    "two graphs, each retained": (
        "needless_retain_graph", 2,
        "for model in (net, other):\n    model(x).sum().backward(retain_graph=True)\n",
    ),
    "a target in float64": ("float64_by_accident", 1, "(net(x) - y.double()).square().mean().backward()\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", COSTLY)
def test_needless_cost_is_noted_with_its_line(name: str, tmp_path: Path) -> None:
    cause, line, program = COSTLY[name]
    assert notes_in(program, tmp_path) == [(cause, line)]


DOUBLING = """\
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x
    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient
class Doubling(Net):
    def forward(self, x):
        return Twice.apply(super().forward(x))
net = Doubling()
"""

NEEDED = {
    "a custom function without gradients": (
        DOUBLING + "net(x).sum().backward()\nwith torch.no_grad():\n    print(net(x).mean().item())\n"
    ),
    "validation without gradients": "net(x).sum().backward()\nwith torch.no_grad():\n    print(net(x).mean().item())\n",
    "a model that torch.export has run to write it down": (
        "learner = torch.export.export(net, (x,)).module()\nlearner(x).sum().backward()\n"
    ),
    "a model that torch.jit.trace has run to write it down": (
        "import warnings\nwarnings.simplefilter('ignore')\n"
        "learner = torch.jit.trace(net, x)\nlearner(x).sum().backward()\n"
    ),
    "a generator that learns later": (
        "fake = other(x)\n(net(x) * fake.detach()).sum().backward()\n(net(x) * fake).sum().backward()\n"
    ),
    "a part that another part needs": "h = net.first(x)\nnet.last(h).sum().backward()\n",
    "two losses of one graph": "out = net(x)\nout.sum().backward(retain_graph=True)\nout.mean().backward()\n",
    "a model that is called with hooks": (
        "net.last.register_full_backward_hook(lambda module, grad_input, grad_output: None)\nnet(x).sum().backward()\n"
    ),
    "a loop that retains for the next loss": (
        "h = net.first(x)\nfor scale in (1, 2, 3):\n    (net.last(h) * scale).sum().backward(retain_graph=scale < 3)\n"
    ),
    "a model in float64": "net.double()\n(net(x.double()) - y.double()).square().mean().backward()\n",
    "a cast that is asked for": "net(x).double().square().mean().backward()\n",
    "nothing that trains": "print(net(x).mean().item())\n",
    "a loss that was cut off from it": "torch.tensor(net(x).mean().item(), requires_grad=True).backward()\n",
}


@pytest.mark.parametrize("name", NEEDED)
def test_needed_cost_is_not_noted(name: str, tmp_path: Path) -> None:
    assert notes_in(NEEDED[name], tmp_path) == []


def test_cost_that_a_stopped_program_may_have_needed_is_not_noted(tmp_path: Path) -> None:
    program = """
    while True:
        out = net(x)
        out.sum().backward(retain_graph=True)
        optimizer.step()
        out.mean().backward()
    """
    assert notes_in(program, tmp_path, RunLimits(steps=1)) == []
