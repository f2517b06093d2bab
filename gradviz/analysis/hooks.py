"""What hooks on tensors made of the gradients that they were shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from gradviz.analysis.dataflow import Dataflow
from gradviz.graph.call_log import Definition
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Graph, Node

Alteration = Literal["not_finite", "zero", "constant", "without_sign", "changed"]
"""From the worst on. ``without_sign``: as large as before, but nothing is negative any more; ``changed``: something
else, which is what hooks are for."""

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
        for output, before in enumerate(node.before_hooks):
            after = node.arrived[output] if output < len(node.arrived) else None
            if before is not None and after is not None and before.is_measured and after.is_measured:
                alteration = _alteration(before, after)
                if alteration is not None:
                    yield HookedGradient(node, output, before, after, alteration)


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


def definitions_of_hooks(flow: Dataflow, node: Node) -> tuple[Definition, ...]:
    """Where the hooks on what a node gave, or on a leaf, are written, as far as they are the program's own."""
    made = None if node.sequence_nr is None or node.is_leaf else flow.call_of_node(node.sequence_nr)
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


def _is_called(flow: Dataflow, tensor: int, node: Node) -> bool:
    return not set(flow.log.tensors[tensor].names).isdisjoint(node.names)
