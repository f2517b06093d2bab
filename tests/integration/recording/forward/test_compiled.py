"""`torch.compile` works under recording as without: the same graphs, no breaks, no warnings."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.recording.child import forked_result
from tests.shared_runs import SharedFolders

COMPILING = """
import dataclasses
import threading
import warnings

from tests.integration.recording.helpers import EVERY_CALL

from torch import nn
import torch.utils.checkpoint

graphs = []

def counted(inner):
    # A backend that counts the graphs it is given, which is what a graph break or a recompilation adds to.
    from torch._dynamo.backends.registry import lookup_backend
    compile_graph = lookup_backend(inner)

    def backend(module, inputs):
        graphs.append(len(list(module.graph.nodes)))
        return compile_graph(module, inputs)

    return backend


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.LayerNorm(3)

    def forward(self, x):
        return torch.nn.functional.gelu(self.norm(self.linear(x)))


def figures():
    from torch._dynamo.utils import counters
    found = {"graphs": list(graphs), **{key: dict(value) for key, value in counters.items() if key != "inductor"}}
    found = {key: value for key, value in found.items() if key in ("graphs", "stats", "frames", "graph_break")}
    graphs.clear()
    counters.clear()
    torch._dynamo.reset()
    return found


def with_warnings(function):
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function()
    return result, [str(warning.message) for warning in caught]


def both(program):
    native_gradients, native_warnings = with_warnings(program)
    native = figures()
    threads = set(threading.enumerate())
    everything = dataclasses.replace(EVERY_CALL, inside=True)  # as gradviz check --inside does
    recording, our_warnings = with_warnings(lambda: record(program, everything))
    recorded = figures()
    assert torch._C._len_torch_function_stack() == 0
    assert all(torch.equal(*pair) for pair in zip(native_gradients, recording.value, strict=True))
    return {
        "more threads": [thread.name for thread in set(threading.enumerate()) - threads],
        "more warnings": sorted(set(our_warnings) - set(native_warnings)),
        "native": native,
        "recorded": recorded,
        "graphs": [[(node.name, node.kind, node.forward_call) for node in graph.nodes]
                   for graph in recording.capture.graphs],
        "regions": [[(region.function, region.backend, region.closed) for region in graph.regions]
                    for graph in recording.capture.graphs],
        "backward_calls": recording.capture.backward_calls,
        "scopes": [[scope.path for scope in graph.scopes] for graph in recording.capture.graphs],
    }
"""

MODELS = """
def compiled_model(backend):
    def program():
        model = Net()
        model.compile(backend=counted(backend))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            out = model(torch.ones(2, 3))
            loss = out.square().sum()
            loss.backward()
            optimizer.step()
        return [parameter.grad for parameter in model.parameters()]
    return program


def compiled_part(backend):
    def program():
        model = nn.Sequential(nn.Linear(3, 3), torch.compile(Net(), backend=counted(backend)), nn.Tanh())
        for _ in range(2):
            model(torch.ones(2, 3)).sum().backward()
        return [parameter.grad for parameter in model.parameters()]
    return program


def compiled_with_a_break(backend):
    def step(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    def program():
        fast = torch.compile(step, backend=counted(backend))
        w = torch.ones(3, requires_grad=True)
        fast(w).sum().backward()
        fast(w).sum().backward()
        return [w.grad]
    return program


def compiled_and_checkpointed(backend):
    def program():
        block = torch.compile(Net(), backend=counted(backend))
        x = torch.ones(2, 3, requires_grad=True)
        for reentrant in (False, True):
            torch.utils.checkpoint.checkpoint(block, x, use_reentrant=reentrant).sum().backward()
        return [x.grad]
    return program


def compiled_function_called_by_a_hook(backend):
    def program():
        fast = torch.compile(lambda gradient: gradient * 2 + 1, backend=counted(backend))
        w = torch.ones(3, requires_grad=True)
        hidden = w.sin()
        hidden.register_hook(fast)
        hidden.sum().backward()
        return [w.grad]
    return program


def compiled_with_its_own_gradient(backend):
    def program():
        def step(w):
            return torch.func.grad(lambda x: (x ** 3).sum())(w)

        fast = torch.compile(step, backend=counted(backend))
        w = torch.ones(3, requires_grad=True)
        fast(w).sum().backward()
        return [w.grad]
    return program


def one_that_fails(backend):
    def program():
        def step(x):
            raise ValueError("in compiled code")

        fast = torch.compile(step, backend=counted(backend))
        try:
            fast(torch.ones(3))
        except ValueError:
            pass
        w = torch.ones(3, requires_grad=True)
        w.sin().sum().backward()
        return [w.grad]
    return program
"""


Found = dict[str, Any]


def run_all(backend: str, *, import_first: bool) -> Found:
    """What came of each program, natively and recorded, with one backend."""
    names = [line.split()[1].partition("(")[0] for line in MODELS.splitlines() if line.startswith("def ")]
    run = "import torch._dynamo\n" if import_first else ""
    run += "found = {}\n" + "".join(f"found[{name!r}] = both({name}({backend!r}))\n" for name in names)
    found: Found = forked_result(COMPILING + MODELS + run + "print(json.dumps(found))\n")
    return found


@pytest.fixture(params=["eager", "aot_eager"])
def compiled(request: pytest.FixtureRequest, shared: SharedFolders) -> tuple[str, Found]:
    """Backend, and the results of all programs with it; one imports the compiler first, one while recording."""
    backend = request.param

    def fill(folder: Path) -> None:
        (folder / "found.json").write_text(json.dumps(run_all(backend, import_first=backend == "eager")))

    return backend, json.loads((shared.folder(f"compiled-{backend}", fill) / "found.json").read_text())


def test_recording_adds_no_graph_no_frame_and_no_break(compiled: tuple[str, Found]) -> None:
    _, found = compiled
    assert {name: one["recorded"] for name, one in found.items()} == {
        name: one["native"] for name, one in found.items()
    }
    assert found["compiled_model"]["native"]["graphs"]


def test_recording_makes_the_compiler_warn_of_nothing(compiled: tuple[str, Found]) -> None:
    _, found = compiled
    assert {name: one["more warnings"] for name, one in found.items()} == {name: [] for name in found}


def test_recording_starts_no_thread_that_the_program_could_see(compiled: tuple[str, Found]) -> None:
    _, found = compiled
    assert {name: one["more threads"] for name, one in found.items()} == {name: [] for name in found}


def test_only_the_backward_calls_of_the_script_count(compiled: tuple[str, Found]) -> None:
    _, found = compiled
    assert {name: one["backward_calls"] for name, one in found.items()} == {
        "compiled_model": 3,
        "compiled_part": 2,
        "compiled_with_a_break": 2,
        "compiled_and_checkpointed": 2,
        "compiled_function_called_by_a_hook": 1,
        "compiled_with_its_own_gradient": 1,
        "one_that_fails": 1,
    }
    assert all(len(one["graphs"]) == one["backward_calls"] for one in found.values())


def test_what_was_compiled_is_marked_with_its_region(compiled: tuple[str, Found]) -> None:
    backend, found = compiled
    for name in ("compiled_model", "compiled_part"):
        for regions in found[name]["regions"]:
            assert {(function, made_with, closed) for function, made_with, closed in regions} == {
                ("forward", "backend", "")
            }, backend
        assert all("NativeLayerNormBackward0" in [node for node, *_ in graph] for graph in found[name]["graphs"])


def test_what_surrounds_compiled_code_is_recorded_as_usual(compiled: tuple[str, Found]) -> None:
    _, found = compiled
    for graph in found["compiled_part"]["graphs"]:
        assert graph[-2:] == [
            ["TanhBackward0", "operation", "torch.tanh"],
            ["SumBackward0", "operation", "torch.Tensor.sum"],
        ]
    assert {"model", "model.0", "model.2"} <= set(found["compiled_part"]["scopes"][0])
    assert ["SinBackward0", "operation", "torch.Tensor.sin"] in found["one_that_fails"]["graphs"][0]


def test_code_that_was_compiled_while_recording_is_not_compiled_again_afterwards() -> None:
    found = forked_result(
        COMPILING
        + """
model = torch.compile(Net(), backend=counted("aot_eager"))

def program():
    model(torch.ones(2, 3)).sum().backward()

found = []
with recorder(RecordingPlan(backward=1, keep_going=True)):
    program()
    found.append(len(graphs))
    program()
    found.append(len(graphs))
program()
found.append(len(graphs))
record(program)
found.append(len(graphs))
print(json.dumps(found))
"""
    )
    assert found == [1, 1, 1, 1]


def test_what_the_program_let_go_is_freed_also_where_code_cannot_be_traced_again() -> None:
    found = forked_result(
        COMPILING
        + """
import gc
import weakref

@torch.compile(backend="eager")
def either(x):
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

def program():
    held = torch.ones(3)
    either(torch.ones(3, requires_grad=True)).sum().backward()
    return weakref.ref(held)

with recorder(EVERY_BACKWARD) as recording:
    held = program()
    gc.collect()
    is_freed = held() is None
told = recording.capture("<python>", (), "finished", None).disclosures
said = any("it contains cond" in each for each in told)
print(json.dumps([is_freed, said]))
"""
    )
    assert found == [True, True]


def test_a_compiled_step_of_an_optimizer_is_logged_with_all_its_parameters() -> None:
    found = forked_result(
        """
from tests.integration.recording.helpers import EVERY_CALL

layer = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
step = torch.compile(optimizer.step, backend="eager")

def program():
    for _ in range(2):
        optimizer.zero_grad()
        layer(torch.ones(1, 3)).sum().backward()
        step()

import logging
logging.disable(logging.WARNING)  # Dynamo says that it ignores a profiler's range in the optimizer
steps = [call for call in record(program, EVERY_CALL).capture.calls.calls if call.kind == "step"]
print(json.dumps([[len(call.inputs), len(call.changed)] for call in steps]))
"""
    )
    assert found == [[2, 2], [2, 2]]


def test_a_backward_inside_a_compiled_training_step_is_recorded_and_breaks_no_further_graph() -> None:
    """Dynamo breaks the graph at ``backward()`` and goes on behind it: gradviz is not traced in between."""
    found = forked_result(
        COMPILING
        + """
def program():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(x):
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    step = torch.compile(train, backend=counted("aot_eager"))
    for _ in range(3):
        optimizer.zero_grad()
        loss = step(torch.ones(2, 3))
        optimizer.step()
    return [loss, *(parameter.grad for parameter in model.parameters())]

import logging
logging.disable(logging.WARNING)  # Dynamo says that it cannot trace backward
found = both(program)
for each in (found["native"], found["recorded"]):
    del each["frames"]  # alone, Dynamo also looks at frames of libraries that compile the backward
print(json.dumps(found))
"""
    )
    assert found["recorded"] == found["native"]
    assert found["more warnings"] == []
    assert found["backward_calls"] == 3
    assert {"AddmmBackward0"} <= {node for graph in found["graphs"] for node, *_ in graph}
