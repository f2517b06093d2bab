"""Whole training steps under `torch.compile`, and what Dynamo does not compile of them."""

# Much of torch has no types.
# mypy: allow-untyped-calls, allow-untyped-defs, disallow-any-decorated=false
from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.compiled.compiled_functions import compiled_document, compiled_functions
from gradviz.analysis.rules import RULES
from gradviz.capture.capture import Capture
from gradviz.capture.capture_file import read_capture, write_capture
from gradviz.graph.compilations import Compilation
from gradviz.rendering.reports.compiled_text import CompiledText
from tests.integration.recording.child import forked_result
from tests.integration.recording.helpers import EVERY_BACKWARD, EVERY_CALL, recorded_script

STEP = """
import torch

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

@torch.compile(backend="eager")
def train_step(x):
    BEFORE
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    AFTER

for _ in range(3):
    train_step(torch.randn(4, 3))
"""


def recorded(folder: Path, program: str) -> Capture:
    """What was recorded of the program, after it was written and read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        capture = recorded_script(folder, program, EVERY_CALL)
    assert capture.error is None, capture.error
    return read_capture(write_capture(capture), "run.gradviz")


def alarms(capture: Capture) -> set[str]:
    return {finding.code for finding in check_case(Case(capture), RULES).findings if finding.is_alarm}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("optimizer.zero_grad()", "pass"),
        ("pass", "optimizer.zero_grad()"),
        ("optimizer.zero_grad(set_to_none=False)", "pass"),
        ("for p in model.parameters(): p.grad = None", "pass"),
    ],
)
def test_gradients_that_a_compiled_step_clears_are_not_used_again(tmp_path: Path, before: str, after: str) -> None:
    assert not alarms(recorded(tmp_path, STEP.replace("BEFORE", before).replace("AFTER", after)))


def test_gradients_that_a_compiled_step_never_clears_are_reported(tmp_path: Path) -> None:
    assert alarms(recorded(tmp_path, STEP.replace("BEFORE", "pass").replace("AFTER", "pass"))) == {"GV601"}


goes_on_behind_a_recurrent_layer = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 15)
"""Whether Dynamo compiles the rest of a function behind one; before, it left the rest uncompiled."""

REFUSED = """
import torch

@torch.compile(backend="eager")
def looped(x):
    for _ in range(2):
        try:
            print("tried")  # refused
        finally:
            x = x.sin()
    return x

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.gru = torch.nn.Linear(2, 2), torch.nn.GRU(2, 2)

    def forward(self, x):
        x = self.linear(x).relu()
        x, _ = self.gru(x)  # left
        return x.cos()

net = torch.compile(Net(), backend="eager")
x = torch.ones(3, 2, 2, requires_grad=True)
(looped(x).sum() + net(x).sum()).backward()
"""


def test_what_dynamo_leaves_uncompiled_is_told_with_line_and_reason(tmp_path: Path) -> None:
    capture = recorded(tmp_path, REFUSED)
    lines = REFUSED.split("\n")
    looped, forward = compiled_functions(capture)
    assert not looped.regions and forward.regions
    ends = not goes_on_behind_a_recurrent_layer
    for function, mark, word, rest in (
        (looped, "refused", "print", True),
        (forward, "left", "GRU", ends),  # As torch 2.6 says, too.
    ):
        (broken,) = function.breaks
        assert broken.leaves_rest == rest and lines[broken.line - 1].endswith(f"# {mark}")
        assert word in broken.explanation + broken.reason
    assert any("(masks, buffers, constants)" in each and "left uncompiled" in each for each in capture.disclosures)
    text = CompiledText(100).text(compiled_document(capture))
    assert "all of the function runs uncompiled" in text
    assert ("the rest of the function, run uncompiled" in text) == ends
    notes = [each.message for each in check_case(Case(capture), RULES).findings if each.code == "GV905"]
    assert "leaves all of looped() uncompiled" in notes[0]
    assert ("leaves forward() uncompiled from here on" in notes[1]) == ends


TOO_MANY = """
import torch

torch._dynamo.config.LIMIT = 2

@torch.compile(backend="eager")
def named(x, name):
    return x.sin() if name else x

x = torch.ones(3, requires_grad=True)
for step in range(CALLS):
    named(x, "name" + str(step)).sum().backward()
"""


@pytest.mark.parametrize("calls", [2, 3])
def test_code_is_given_up_when_there_are_too_many_versions_and_not_before(tmp_path: Path, calls: int) -> None:
    import torch._dynamo.config as settings

    name = "recompile_limit" if hasattr(settings, "recompile_limit") else "cache_size_limit"
    earlier = getattr(settings, name)
    try:
        capture = recorded(tmp_path, TOO_MANY.replace("LIMIT", name).replace("CALLS", str(calls)))
    finally:
        setattr(settings, name, earlier)
    (function,) = compiled_functions(capture)
    (region,) = function.regions
    assert (region.versions, region.is_given_up, function.breaks) == (2, calls == 3, ())


def test_one_code_of_torch_that_several_lines_call_is_one_function() -> None:
    from msgspec.structs import replace as with_fields

    from tests.captures import small_capture

    versions = (Compilation(5, number, "Sequential", "train.py", 9 + number) for number in range(3))
    (function,) = compiled_functions(with_fields(small_capture(), compilations=tuple(versions)))
    assert (function.line, function.recompilations) == (9, 2)


NOT_RECURSIVE = """
import torch
from torch._dynamo.utils import counters

def inner(x):
    return x.sin() + 1

@torch._dynamo.disable(recursive=False)
def outer(x):
    return inner(x * 2).cos()

@torch.compile(backend="eager")
def f(x):
    return outer(x + 1) * 3

before = counters["stats"]["calls_captured"]
f(torch.ones(3, requires_grad=True)).sum().backward()
captured = counters["stats"]["calls_captured"] - before
"""


def test_a_function_that_is_disabled_by_itself_is_not_compiled(tmp_path: Path) -> None:
    plain: dict[str, int] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(NOT_RECURSIVE, "plain.py", "exec"), plain)
    capture = recorded(tmp_path, NOT_RECURSIVE + f"\nassert captured == {plain['captured']}, captured")
    assert {function.name for function in compiled_functions(capture)} == {"f", "inner"}


BOXES = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return x + self.linear(x)

net = Net()
WHOLE
model(torch.ones(2, 3)).sum().backward()
"""


@pytest.mark.parametrize(
    "how",
    [
        "model = torch.compile(net, backend='aot_eager')",
        "model = net\nfor block in net.blocks: block.compile(backend='aot_eager')",
    ],
)
def test_each_module_call_is_one_box(tmp_path: Path, how: str) -> None:
    (graph,) = recorded(tmp_path, BOXES.replace("WHOLE", how)).graphs
    calls = [(scope.path, scope.call) for scope in graph.scopes]
    names = ["net", *(f"net.blocks.{number}{name}" for number in range(2) for name in ("", ".linear"))]
    assert sorted(calls) == sorted((name, 0) for name in names)


BEHIND = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.head, self.choice = (torch.nn.Linear(3, 3, bias=False) for _ in range(3))
        self.gru = torch.nn.GRU(3, 3)

    def forward(self, x):
        gate = self.gate(x)
        torch._dynamo.graph_break()
        mask = (gate > 0).float()  # compared
        x = self.head(x) * mask
        return self.behind(x) if self.has_rest else x

    def behind(self, x):
        x, _ = self.gru(x)
        return x * self.choice(x).argmax(-1, keepdim=True)  # chosen

net = Net()
net.has_rest = HAS_REST
trained = net if net.has_rest else torch.nn.ModuleList([net.gate, net.head])
optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
model = torch.compile(net, backend="aot_eager")
for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(4, 1, 3)).square().sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("has_rest", [False, True])
def test_what_cuts_off_a_parameter_behind_a_graph_break_has_its_line(tmp_path: Path, has_rest: bool) -> None:
    """Also if uncompiled code follows, of which not every call is seen."""
    findings = check_case(Case(recorded(tmp_path, BEHIND.replace("HAS_REST", str(has_rest)))), RULES).findings
    lines = BEHIND.split("\n")
    found = {
        name: (each.code, lines[each.location.line - 1].partition("# ")[2])
        for each in findings
        for name in each.tensors
        if each.location is not None
    }
    assert found["net.gate.weight"] == ("GV704" if has_rest else "GV107", "compared")
    code = "GV107" if goes_on_behind_a_recurrent_layer else "GV704"
    assert not has_rest or found["net.choice.weight"] == (code, "chosen")


TWICE = """
import torch

net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Softplus(), torch.nn.Linear(3, 1))
model = torch.compile(net, backend="aot_eager")
x = torch.ones(2, 3, requires_grad=True)
(slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
slope.square().sum().backward()
"""


def test_a_gradient_of_compiled_code_that_is_differentiated_again_is_explained(tmp_path: Path) -> None:
    """In a process of its own: where much else has been compiled, torch does not refuse it."""
    codes, disclosures = forked_result(
        f"""
import sys
import warnings
from pathlib import Path
from tests.integration.recording.compiled.test_whole_steps import TWICE, alarms
from tests.integration.recording.helpers import EVERY_CALL, recorded_script

warnings.simplefilter("ignore")
sys.excepthook = lambda *_: None  # The script may end with a traceback: torch 2.6 refuses the call.
capture = recorded_script(Path({str(tmp_path)!r}), TWICE, EVERY_CALL)
print(json.dumps([sorted(alarms(capture)), capture.disclosures]))
"""
    )
    assert codes == ["GV605"]
    assert any("create_graph=True" in sentence for sentence in disclosures)
    assert not any("AttributeError" in sentence for sentence in disclosures)


IN_16_BITS = """
import torch

torch.manual_seed(0)

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.first, self.last = torch.nn.LayerNorm(16), torch.nn.Linear(16, 64), torch.nn.Linear(64, 16)
        self.drop = torch.nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.last(torch.nn.functional.gelu(self.first(self.norm(x)))))

net = torch.nn.Sequential(Block(), Block(), Block(), torch.nn.Linear(16, 1))
model = torch.compile(net, backend="aot_eager")
x = torch.randn(32, 16)
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = (model(x).float() - x.mean(1, keepdim=True)).square().mean()
loss.backward()
"""


def test_rounding_in_16_bits_is_not_taken_for_other_random_numbers(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        capture = recorded_script(tmp_path, IN_16_BITS, replace(EVERY_BACKWARD, inside=True))
    assert not any("random numbers" in sentence for sentence in capture.disclosures), capture.disclosures
    assert [region.is_measured for graph in capture.graphs for region in graph.regions] == [True]


COMPARED = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.head, self.gru = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3), torch.nn.GRU(3, 3)

    def forward(self, x):
        gate, x = self.gate(x), self.head(x)
        x, _ = self.gru(x)
        return x * (gate > 0)  # compared

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
model = torch.compile(net, backend="aot_eager")
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(4, 1, 3)).square().sum().backward()
    optimizer.step()
"""


def test_a_result_that_only_uncompiled_code_uses_is_not_called_unused(tmp_path: Path) -> None:
    (finding,) = (each for each in check_case(Case(recorded(tmp_path, COMPARED)), RULES).findings if each.is_alarm)
    assert set(finding.tensors) == {"net.gate.weight", "net.gate.bias"}
    if goes_on_behind_a_recurrent_layer:  # then the line is compiled, and known
        assert "gt has no derivative" in finding.message
        return
    assert "no gradient comes back from compiled code" in finding.message
    assert "leaves uncompiled" in finding.why and "comparison" in finding.fix
