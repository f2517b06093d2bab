"""Programs that are traced with symbolic shapes or without values work while they are recorded."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from tests.integration.recording.helpers import line_of, node_named, record


def exported() -> str:
    """A model exported for any batch size."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    batch = torch.export.Dim("batch")
    program = torch.export.export(model, (torch.ones(3, 4),), dynamic_shapes=({0: batch},), strict=False)
    return str(program.graph)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.inner(x)
        return hidden.relu() + x


def exported_block(strict: bool) -> nn.Module:
    """The block as `torch.export` writes it down; strictly, Dynamo does that."""
    return torch.export.export(Block(), (torch.ones(3, 4),), strict=strict).module()


def exported_strictly() -> str:
    """What Dynamo would refuse if it met the recorder."""
    return str(exported_block(strict=True).graph)


def traced_with_symbols() -> str:
    """A function traced for any size, with a weight that requires a gradient."""
    weight = torch.ones(4, 4, requires_grad=True)

    def compute(x: Tensor) -> Tensor:
        return torch.mm(x, weight).sin().sum() * x.shape[0]

    return str(make_fx(compute, tracing_mode="symbolic", _allow_non_fake_inputs=True)(torch.ones(3, 4)).graph)


def traced_for_torchscript() -> str:
    """A model traced in the old way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return str(torch.jit.trace(nn.Sequential(nn.Tanh(), nn.ReLU()), torch.ones(1, 4))(torch.ones(1, 4)))


@pytest.mark.parametrize("trace", [exported, exported_strictly, traced_with_symbols, traced_for_torchscript])
def test_a_traced_program_is_the_same(trace: Callable[[], str]) -> None:
    assert record(trace).value == trace()


@pytest.mark.parametrize("strict", [False, True])
def test_operations_of_an_exported_module_have_the_lines_and_names_of_the_model(strict: bool) -> None:
    recording = record(lambda: exported_block(strict)(torch.ones(3, 4)).sum().backward())
    capture, graph = recording.capture, recording.graph
    found = {
        node.forward_call: line_of(capture, graph, node)
        for node in graph.nodes
        if node.forward_call is not None and node.forward_call.startswith("torch.ops.aten.")
    }
    assert found == {
        "torch.ops.aten.linear": "hidden = self.inner(x)",
        "torch.ops.aten.relu": "return hidden.relu() + x",
        "torch.ops.aten.add": "return hidden.relu() + x",
    }


class Blocks(nn.Module):
    """One of its blocks is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.blocks
        result: Tensor = first(second(first(x)))
        return result


def module_calls(model: Callable[[], nn.Module]) -> list[tuple[str, str, int, int]]:
    """Path, class, number of the call and parameters of each module call inside a model."""

    def step() -> None:
        net = model()
        net(torch.ones(3, 4)).sum().backward()

    scopes = [(scope.path, scope.kind, scope) for scope in record(step).graph.scopes]
    return [
        (path.partition(".")[2], scope.class_name, scope.call, scope.parameter_count)
        for path, _, scope in scopes
        if "." in path
    ]


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_module_has_the_module_calls_of_the_model(strict: bool) -> None:
    plain = module_calls(Blocks)
    exported = module_calls(lambda: torch.export.export(Blocks(), (torch.ones(3, 4),), strict=strict).module())
    assert exported == plain and len(plain) == 6


def fake_step(symbolic: bool) -> str:
    """A training step on tensors without values."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    rows = DimDynamic.DYNAMIC if symbolic else DimDynamic.STATIC
    sizes: Any = StatelessSymbolicContext(dynamic_sizes=[rows, DimDynamic.STATIC])
    data = mode.from_tensor(torch.ones(5, 3), symbolic_context=sizes)
    with mode:
        layer = nn.Linear(3, 2)
        layer(data).sum().backward()
    return str(layer.weight.grad)


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_step_on_tensors_without_values_is_recorded(symbolic: bool) -> None:
    recording = record(lambda: fake_step(symbolic))
    assert recording.value == fake_step(symbolic)
    facts = node_named(recording.graph, "AddmmBackward0").outputs[0]
    assert facts is not None
    rows, columns = facts.shape
    assert isinstance(rows, str) if symbolic else rows == 5, facts
    assert columns == 2


def test_a_callable_that_cannot_be_hashed_is_recorded() -> None:
    class Double:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return self is other

        def __call__(self, x: Tensor) -> Tensor:
            return x * 2

    def run() -> None:
        x: Any = torch.ones(2, requires_grad=True)
        torch.overrides.handle_torch_function(Double(), (x,), x).sum().backward()

    assert node_named(record(run).graph, "MulBackward0").kind == "operation"
