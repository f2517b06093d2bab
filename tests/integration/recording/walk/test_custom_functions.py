"""Functions that are differentiated in Python: each is one node, whatever its forward computes."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from gradviz.analysis.flow.lost_gradients import LostGradients
from gradviz.recording.run.recording_plan import RecordingPlan
from tests.integration.recording.helpers import (
    line_of,
    names_of_nodes,
    node_named,
    nodes_named,
    record,
    record_failing,
)
from tests.integration.recording.small_graphs import weight


class WithTorchInside(torch.autograd.Function):
    """Calls torch in its forward, which must leave no nodes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.nn.functional.relu(x).exp() * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * x.relu().exp() * 2 * (x > 0)


class WithNothingInside(torch.autograd.Function):
    """Passes its input on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient


class WithSetupContext(torch.autograd.Function):
    """The style with a separate context."""

    @staticmethod
    def forward(x: Tensor, factor: int) -> Tensor:
        return x * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


BOUND_EARLY = WithTorchInside.apply

CALLS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "with torch inside": ("WithTorchInsideBackward", lambda x: WithTorchInside.apply(x)),
    "with nothing inside": ("WithNothingInsideBackward", lambda x: WithNothingInside.apply(x)),
    "with setup_context": ("WithSetupContextBackward", lambda x: WithSetupContext.apply(x, 3)),
    "apply bound before the recording": ("WithTorchInsideBackward", lambda x: BOUND_EARLY(x)),
}


@pytest.mark.parametrize("words", CALLS)
def test_a_custom_function_is_one_node_with_its_line(words: str) -> None:
    name, call = CALLS[words]

    def run() -> None:
        x = weight(3) * 2
        y = call(x)
        y.sum().backward()

    recording = record(run)
    node = node_named(recording.graph, name)
    assert node.kind == "custom"
    assert node.names == ("y",)
    assert node.forward_call == "autograd.Function.apply"
    assert "apply" in line_of(recording.capture, recording.graph, node) or "BOUND_EARLY" in line_of(
        recording.capture, recording.graph, node
    )
    assert names_of_nodes(recording.graph) == [
        "torch::autograd::AccumulateGrad",
        "MulBackward0",
        name,
        "SumBackward0",
    ]


def test_apply_that_is_bound_while_recording_works_afterwards() -> None:
    kept: list[Any] = []

    def run() -> None:
        apply = WithTorchInside.apply
        kept.append(apply)
        apply(weight(3)).sum().backward()

    record(run)
    (apply,) = kept
    w = weight(3)
    apply(w).sum().backward()
    assert w.grad is not None
    graph = record(lambda: apply(weight(3)).sum().backward()).graph
    assert node_named(graph, "WithTorchInsideBackward").kind == "custom"


def test_the_operations_around_a_custom_function_keep_their_own_lines() -> None:
    def run() -> None:
        x = weight(3).sin()
        y = WithTorchInside.apply(x)
        z = y.cos()
        z.sum().backward()

    recording = record(run)
    lines = [line_of(recording.capture, recording.graph, node) for node in recording.graph.nodes if not node.is_leaf]
    assert lines == [
        "x = weight(3).sin()",
        "y = WithTorchInside.apply(x)",
        "z = y.cos()",
        "z.sum().backward()",
    ]


def test_a_custom_function_that_needs_no_gradient_leaves_the_next_node_alone() -> None:
    def run() -> None:
        WithTorchInside.apply(torch.ones(3))
        with torch.no_grad():
            WithTorchInside.apply(weight(3))
        weight(3).sin().sum().backward()

    assert node_named(record(run).graph, "SinBackward0").forward_call == "torch.Tensor.sin"


def test_a_function_within_a_function_in_one_backward_graph_has_its_own_node() -> None:
    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return gradient * WithSetupContext.apply(x.cos(), 1)

    def run() -> None:
        x = weight(3)
        (gradient,) = torch.autograd.grad(Outer.apply(x).sum(), x, create_graph=True)
        later = gradient.exp()
        later.sum().backward()

    first, second = record(run).capture.graphs
    assert node_named(first, "OuterBackward").kind == "custom"
    assert node_named(second, "WithSetupContextBackward").kind == "custom"
    assert node_named(second, "ExpBackward0").names == ("later",)


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True:UserWarning")
def test_a_gradient_of_gradients_taken_by_backward_keeps_the_lines_around_it() -> None:
    """``Tensor.backward`` is a torch function itself, and what it makes lies between two lines of the script."""

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return 3 * WithSetupContext.apply(x * x, 1).sin() * gradient

    def run() -> None:
        x = weight(3)
        Cube.apply(x).cos().sum().backward(inputs=[x], create_graph=True)
        gradient = x.grad
        assert gradient is not None
        last = gradient.tanh()
        last.sum().backward()
        x.grad = None  # breaks the cycle that create_graph leaves

    recording = record(run)
    graph = recording.capture.graphs[1]
    tanh = node_named(graph, "TanhBackward0")
    assert line_of(recording.capture, graph, tanh) == "last = gradient.tanh()"
    for node in nodes_named(graph, "SinBackward0"):
        assert "backward(inputs=[x], create_graph=True)" in line_of(recording.capture, graph, node)


def test_two_functions_of_the_same_name_are_kept_apart() -> None:
    def make(factor: int) -> Any:
        class Scale(torch.autograd.Function):
            marker = factor

            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                return x * factor

            @staticmethod
            def backward(ctx: Any, gradient: Tensor) -> Tensor:
                return gradient * factor

        return Scale.apply

    def run() -> Tensor:
        w = weight(3)
        make(3)(make(2)(w)).sum().backward()
        assert w.grad is not None
        return w.grad

    recording = record(run)
    assert torch.equal(recording.value, torch.full((3,), 6.0))
    assert [node.kind for node in nodes_named(recording.graph, "ScaleBackward")] == ["custom", "custom"]


def test_what_a_function_keeps_on_its_context_does_not_confuse_the_recorder() -> None:
    class Keeper(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.variable = "no leaf"
            ctx.metadata_of_mine = {"self": ctx}
            ctx._saved_dim = 3
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * 2

    graph = record(lambda: Keeper.apply(weight(3)).sum().backward()).graph
    assert node_named(graph, "KeeperBackward").kind == "custom"


class Reversible(torch.autograd.Function):
    """Computes its layer again in backward, and calls backward there: the layer is in no graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: torch.nn.Module) -> Tensor:
        ctx.layer = layer
        ctx.save_for_backward(x)
        with torch.no_grad():
            return layer(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None]:
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            ctx.layer(x).backward(gradient)
        return x.grad, None


@pytest.mark.parametrize("gradients", [True, False])
def test_a_function_that_calls_backward_itself_is_disclosed(
    gradients: bool,
) -> None:
    def run() -> None:
        layer = torch.nn.Linear(3, 3)
        Reversible.apply(weight(1, 3), layer).sum().backward()
        assert layer.weight.grad is not None

    recording = record(run, RecordingPlan(backward=None, keep_going=True, gradients=gradients))
    assert [node.name for node in recording.graph.nodes if node.calls_backward] == ["ReversibleBackward"]
    assert recording.capture.disclosures == (
        "what ReversibleBackward computes is not in this graph: it is computed again inside backward, where its "
        "parameters get their gradients",
    )
    for parameter in recording.capture.parameters:
        reason = LostGradients(recording.capture, recording.graph).why_nothing_arrived(parameter, None)
        assert reason == "not in the graph; perhaps used inside ReversibleBackward, and got its gradient there"


def test_a_backward_inside_backward_that_raises_leaves_its_mark_all_the_same() -> None:
    def run() -> None:
        layer = torch.nn.Linear(3, 3)
        layer.weight.register_hook(lambda gradient: gradient[:1])  # of another shape: torch refuses it
        Reversible.apply(weight(1, 3), layer).sum().backward()

    graph = record_failing(run, RuntimeError).graph
    assert [node.name for node in graph.nodes if node.calls_backward] == ["ReversibleBackward"]


def test_the_source_of_a_custom_function_is_recorded_from_its_class_line_on() -> None:
    class Inside(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient

    x = weight(3)
    recording = record(lambda: Inside.apply(WithSetupContext.apply(Inside.apply(x), 3)).sum().backward())
    found = {each.node_name: each for each in recording.graph.custom_functions}
    assert list(found) == ["InsideBackward", "WithSetupContextBackward"]
    for each, first, last in (
        (found["InsideBackward"], "class Inside(torch.autograd.Function):", "return gradient"),
        (found["WithSetupContextBackward"], "class WithSetupContext(", "return gradient * ctx.factor, None"),
    ):
        lines = recording.capture.sources[each.file]
        assert lines[each.first_line].strip().startswith(first)
        assert lines[each.last_line].strip() == last


def test_a_custom_function_without_a_file_is_recorded_without_its_source() -> None:
    namespace: dict[str, Any] = {"torch": torch}
    exec(
        "class Made(torch.autograd.Function):\n"
        "    forward = staticmethod(lambda ctx, x: x.clone())\n"
        "    backward = staticmethod(lambda ctx, gradient: gradient)\n",
        namespace,
    )
    recording = record(lambda: namespace["Made"].apply(weight(3)).sum().backward())
    assert node_named(recording.graph, "MadeBackward").kind == "custom"
    assert recording.graph.custom_functions == ()
