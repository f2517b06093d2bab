"""Leaves whose gradient stays exactly zero, and the nodes where these zeros began.

A zero at one step is often right: the inner factor of a low-rank adapter gets nothing until the outer one has changed.
So a leaf counts as dead only if it got zeros at every recorded step, or at all of the last ones while the loss was not
zero.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import cached_property

from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.analysis.dataflow.values.origins import Kind, ValueOrigins, has_nan, is_all_zero
from gradviz.analysis.numbers.gradient_origins import GradientOrigin, find_gradient_origins, state_of
from gradviz.graph.model import Graph, Node

MIN_LAST = 3
"""The number of steps at the end that must be dead if earlier ones were not."""


@dataclass(frozen=True)
class DeadLeaf:
    """A leaf that gets only zeros."""

    name: str
    graph: int
    """The last graph that it is in."""
    node: int
    """The leaf's node there."""
    steps: int
    """Recorded backward calls at which it got zero."""
    was_alive: bool
    """Whether its gradients were not zero at first."""
    is_loss_zero: bool
    """Whether the loss of that graph was exactly zero."""


class DeadLeaves:
    """Finds them in all graphs of one run together."""

    def __init__(self, backward_calls: BackwardCalls, origins: ValueOrigins) -> None:
        self._backward_calls = backward_calls
        self._graphs = backward_calls.graphs
        self._origins = origins

    def gradient_origins(self) -> Iterator[tuple[DeadLeaf, int, Node, GradientOrigin]]:
        """Each with a graph and the node in it where the zeros of the leaf began."""
        by_graph: dict[int, list[DeadLeaf]] = {}
        for leaf in self.all:
            by_graph.setdefault(leaf.graph, []).append(leaf)
        for number, leaves in by_graph.items():
            graph = self._graphs[number]
            by_node = find_gradient_origins(graph).by_node
            zero = {node: origin for node, origin in by_node.items() if origin.state == "zero" and origin.by != "hook"}
            origins = _origins_by_receiver(graph, zero)
            for leaf in leaves:
                for node in sorted(origins.get(leaf.node, ())):
                    if zero[node].by in ("node", "sum"):
                        yield leaf, number, graph.nodes[node], zero[node]

    @cached_property
    def all(self) -> list[DeadLeaf]:
        """Every leaf that is dead, in the order in which graphs have them."""
        histories: dict[str, list[tuple[int, int, bool]]] = {}
        for number, graph in enumerate(self._graphs):
            # Once a loss is NaN, zeros say nothing: the slope of abs() and of a clamp is 0 there.
            for leaf in () if self._is_loss(number, has_nan) else graph.leaves:
                state = state_of(leaf.arrived)
                if state is not None and state != "none":
                    name = leaf.names[0] if leaf.names else ""
                    histories.setdefault(name, []).append((number, leaf.id, state == "zero"))
        found = (self._dead_leaf(name, history) for name, history in histories.items() if name)
        return [dead for dead in found if dead is not None]

    def _dead_leaf(self, name: str, history: list[tuple[int, int, bool]]) -> DeadLeaf | None:
        zeros = [is_zero for *_, is_zero in history]
        tail = next((index for index, is_zero in enumerate(reversed(zeros)) if not is_zero), len(zeros))
        if not all(zeros) and (tail < MIN_LAST or 2 * tail < len(zeros)):
            return None
        graph, node, _ = history[-1]
        found = DeadLeaf(name, graph, node, sum(zeros), not all(zeros), self._is_loss(graph, is_all_zero))
        return None if found.was_alive and found.is_loss_zero else found

    def _is_loss(self, number: int, kind: Kind) -> bool:
        """Whether a loss has values of a kind."""
        row = self._backward_calls.row_of(number)
        if row is None:
            return False
        roots = self._backward_calls.flow.log.calls[row].roots
        return any(use in roots for use in self._origins.inputs_of_kind(row, kind))


def _origins_by_receiver(graph: Graph, by_node: Container[int]) -> dict[int, frozenset[int]]:
    """For every node that got only zeros along some edge: the nodes where these zeros began.

    Each sender has a larger number than its receivers, so one pass is enough.
    """
    found: dict[int, frozenset[int]] = {}
    for node in reversed(graph.nodes):
        own = frozenset({node.id}) if node.id in by_node else found.get(node.id, frozenset())
        for edge, sent in zip(node.edges, node.gradients, strict=False):
            if own and edge is not None and sent is not None and sent.is_zero:
                found[edge.target] = found.get(edge.target, frozenset()) | own
    return found
