"""What hooks on tensors made of the gradients that they were shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from gradviz.analysis.dataflow import Dataflow
from gradviz.graph.call_log import Definition
from gradviz.graph.gradients import TensorFigures, at_place
from gradviz.graph.model import Graph, Node

Alteration = Literal["not_finite", "zero", "constant", "without_sign", "changed"]
"""From the worst on. ``without_sign``: as large as before, but nothing is negative any more; ``changed``: something
else, which is what hooks are for."""

MODULE_HOOK = "BackwardHookFunctionBackward"
"""The node at which hooks of a module are called."""
_SAME = 1e-3


class HookedGradient(Struct, frozen=True):
    """A gradient that hooks changed."""

    node: Node
    output: int
    before: TensorFigures
    after: TensorFigures
    alteration: Alteration

    @property
    def factor(self) -> float | None:
        """How many times as large it is afterwards."""
        return None if not self.before.norm or self.after.norm is None else self.after.norm / self.before.norm


def hooked_gradients(graph: Graph) -> Iterator[HookedGradient]:
    """Every one of a graph, in order of creation."""
    for node in graph.nodes:
        befores, afters = _around_hooks(node)
        for output, before in enumerate(befores):
            after = at_place(afters, output)
            if before is not None and after is not None and before.is_measured and after.is_measured:
                alteration = _alteration(before, after)
                if alteration is not None:
                    yield HookedGradient(node, output, before, after, alteration)


def _around_hooks(node: Node) -> tuple[tuple[TensorFigures | None, ...], tuple[TensorFigures | None, ...]]:
    """What hooks were shown, and what came of it. Around a module with hooks torch puts a node that changes nothing."""
    if node.name == MODULE_HOOK:
        return node.arrived, node.gradients
    return node.before_hooks, node.arrived


def _alteration(before: TensorFigures, after: TensorFigures) -> Alteration | None:
    if _figures(before) == _figures(after) or before.nans or before.infs:
        return None
    if after.nans or after.infs:
        return "not_finite"
    if after.is_zero:
        return "zero"
    if after.count > 1 and after.minimum == after.maximum and before.minimum != before.maximum:
        return "constant"
    return "without_sign" if _lost_its_sign(before, after) else "changed"


def _figures(figures: TensorFigures) -> tuple[object, ...]:
    return figures.norm, figures.mean, figures.minimum, figures.maximum, figures.zeros, figures.nans, figures.infs


def _lost_its_sign(before: TensorFigures, after: TensorFigures) -> bool:
    if before.minimum is None or after.minimum is None or not before.norm or after.norm is None:
        return False
    return before.minimum < 0 <= after.minimum and abs(after.norm - before.norm) <= _SAME * before.norm


def definitions_of_hooks(flow: Dataflow, graph: Graph, node: Node) -> tuple[Definition, ...]:
    """Where the hooks on what a node gave, or on a leaf, are written, as far as they are the program's own."""
    if node.name == MODULE_HOOK:
        return _of_module(flow, None if node.scope is None else graph.scopes[node.scope].path)
    made = None if node.is_leaf else flow.call_of_node(node.sequence_nr)
    found: dict[Definition, None] = {}
    for _, call in flow.hook_registrations:
        definition = None if call.definition is None else flow.log.definitions[call.definition]
        if definition is None or definition.name.removesuffix(".__call__") not in node.hooks or not call.inputs:
            continue
        tensor = call.inputs[0].tensor
        is_on_it = made in flow.producers(tensor) if made is not None else _is_called(flow, tensor, node)
        if is_on_it:
            found[definition] = None
    return tuple(found)


def _of_module(flow: Dataflow, path: str | None) -> tuple[Definition, ...]:
    log = flow.log
    rows = [
        (None if call.scope is None else log.scopes[call.scope].path, log.definitions[call.definition])
        for call in log.calls
        if call.definition is not None and call.function == "torch.nn.Module.register_full_backward_hook"
    ]
    return tuple(dict.fromkeys(definition for where, definition in rows if path is None or where == path))


def _is_called(flow: Dataflow, tensor: int, node: Node) -> bool:
    return not set(flow.log.tensors[tensor].names).isdisjoint(node.names)
