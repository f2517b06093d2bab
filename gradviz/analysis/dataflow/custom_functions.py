"""Custom autograd functions of a run: which call made which node, and where the backward of each is written."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.dataflow import Dataflow, passes_on
from gradviz.analysis.finding import Location
from gradviz.graph.call_log import Call, Definition, DerivativeCheck, TensorUse
from gradviz.graph.model import Graph, Node


class CustomCall(Struct, frozen=True):
    """One node of a custom function, with the call that made it."""

    node: Node
    call: Call
    definition: Definition | None
    """Of its backward; None if that belongs to an installed package."""

    @property
    def function(self) -> str:
        """Name of the class."""
        return self.call.function.removesuffix(".apply")


def custom_call_of(flow: Dataflow, node: Node) -> CustomCall | None:
    """The call of a node of a custom function; None for all other nodes."""
    row = flow.call_of_node(node)
    call = None if row is None else flow.log.calls[row]
    if call is None or call.kind != "custom":
        return None
    return CustomCall(node, call, None if call.definition is None else flow.log.definitions[call.definition])


def custom_calls(flow: Dataflow, graph: Graph) -> Iterator[CustomCall]:
    """The calls of custom functions in a graph, in order of creation."""
    for node in graph.nodes:
        found = custom_call_of(flow, node) if node.kind == "custom" else None
        if found is not None:
            yield found


def return_location(definition: Definition) -> Location:
    """The line of its last ``return``; if it has none, the end of the function."""
    return Location(definition.file, definition.returns[-1] if definition.returns else definition.last_line)


# Whether the backward of a custom function matches the slope of its forward.

_TOLERANCE = {"float64": 0.02, "float32": 0.1}
"""Relative. Some backward formulas are approximations on purpose; wrong ones are far off."""
_NEGLIGIBLE = 1e-3
"""Differences are ignored if they are smaller than this part of the largest slope."""
_MIN_SHARE = 0.2
"""The part of the compared elements that must differ."""


def is_flat(check: DerivativeCheck) -> bool:
    """Whether forward does not change with this input, but backward returns a gradient: a surrogate gradient."""
    return check.flat > 0 and not any(check.measured)


def differing_slopes(check: DerivativeCheck) -> list[tuple[float, float]]:
    """The elements where gradient and slope differ; empty if there are too few."""
    pairs = list(zip(check.given, check.measured, strict=True))
    largest = max((max(abs(one), abs(other)) for one, other in pairs), default=0.0)
    tolerance = _TOLERANCE.get(check.dtype, 0.1)
    wrong = [
        (one, other)
        for one, other in pairs
        if not abs(one - other) <= tolerance * max(abs(one), abs(other)) + _NEGLIGIBLE * largest
    ]
    is_enough = len(wrong) >= max(min(2, len(pairs)), _MIN_SHARE * len(pairs))
    return wrong if is_enough else []


# What a custom function computes with, though autograd does not know that it does.


def hidden_inputs(flow: Dataflow, row: int) -> tuple[tuple[int, int], ...]:
    """Tensors that required grad and from which the forward of a custom function computed its results, though they are
    no arguments of ``apply()``: each with the first call there that used it. Integers lead to no gradient."""
    call = flow.log.calls[row]
    inner = _rows_inside(flow, row)
    needed, made, found = {use.tensor for use in call.outputs}, set[int](), dict[int, int]()
    for each in reversed(inner):
        own = flow.log.calls[each]
        if not passes_on(own) or not any(_carries(flow, use.tensor, needed) for use in own.outputs):
            continue
        needed.update(use.tensor for use in own.inputs)
        made.update(use.tensor for use in own.outputs)
        found.update((use.tensor, each) for use in own.live_inputs)
    given = {use.tensor for use in call.inputs if is_argument(use)}
    return tuple((tensor, each) for tensor, each in sorted(found.items()) if tensor not in made | given)


def is_argument(use: TensorUse) -> bool:
    """Whether a custom function got the tensor as an argument of its own: autograd does not look into lists."""
    return "[" not in use.place


def _rows_inside(flow: Dataflow, row: int) -> list[int]:
    """The calls in the forward of a custom function, also in others that it calls."""
    rows, waiting = list[int](), [row]
    while waiting:
        inner = flow.inside(waiting.pop())
        rows += inner
        waiting += inner
    return sorted(rows)


def _carries(flow: Dataflow, tensor: int, needed: set[int]) -> bool:
    return tensor in needed and flow.log.tensors[tensor].facts.is_differentiable
