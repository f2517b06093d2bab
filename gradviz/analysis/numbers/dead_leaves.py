"""Leaves whose gradient is exactly zero for good, and the nodes that these zeros were born in.

A zero at one step is often right: the inner factor of a low-rank adapter gets nothing until the outer one has moved.
So a leaf counts as dead only if it got zeros at every recorded step, or at all of the last ones while there was a loss.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.analysis.dataflow.value_origins import ValueOrigins, is_all_zero
from gradviz.analysis.numbers.gradient_origins import GradientOrigin, find_gradient_origins, state_of
from gradviz.graph.model import Graph, Node

MIN_LAST = 3
"""So many steps at the end must be dead where earlier ones were not."""


@dataclass(frozen=True)
class DeadLeaf:
    """A leaf that gets nothing but zeros."""

    name: str
    graph: int
    """The last graph that it is in."""
    node: int
    """What it is there."""
    steps: int
    """Recorded backward calls at which it got zero."""
    was_alive: bool
    """Whether it got something else at first."""
    is_loss_zero: bool
    """Whether there was nothing left to learn in that graph."""


class DeadLeaves:
    """Looks for them in all graphs of one run together."""

    def __init__(self, backward_calls: BackwardCalls, origins: ValueOrigins) -> None:
        self._backward_calls = backward_calls
        self._graphs = backward_calls.graphs
        self._origins = origins

    def gradient_origins(self) -> Iterator[tuple[DeadLeaf, int, Node, GradientOrigin]]:
        """Each with a graph and a node in it from which zero came to the leaf first."""
        by_graph: dict[int, list[DeadLeaf]] = {}
        for leaf in self._dead_leaves():
            by_graph.setdefault(leaf.graph, []).append(leaf)
        for number, leaves in by_graph.items():
            graph = self._graphs[number]
            by_node = find_gradient_origins(graph).by_node
            zero = {
                node: gradient_origin
                for node, gradient_origin in by_node.items()
                if gradient_origin.state == "zero" and gradient_origin.by != "hook"
            }
            gradient_origins = _origins_by_receiver(graph, zero)
            for leaf in leaves:
                for node in sorted(gradient_origins.get(leaf.node, ())):
                    if zero[node].by in ("node", "sum"):
                        yield leaf, number, graph.nodes[node], zero[node]

    def _dead_leaves(self) -> list[DeadLeaf]:
        histories: dict[str, list[tuple[int, int, bool]]] = {}
        for number, graph in enumerate(self._graphs):
            for leaf in graph.leaves:
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
        found = DeadLeaf(name, graph, node, sum(zeros), not all(zeros), self._is_loss_zero(graph))
        return None if found.was_alive and found.is_loss_zero else found

    def _is_loss_zero(self, number: int) -> bool:
        row = self._backward_calls.row_of(number)
        if row is None:
            return False
        roots = self._backward_calls.flow.log.calls[row].roots
        return any(use in roots for use in self._origins.inputs_of_kind(row, is_all_zero))


def _origins_by_receiver(graph: Graph, by_node: Container[int]) -> dict[int, frozenset[int]]:
    """For every node that got nothing but zeros along some edge: the nodes that these zeros were born in.

    Whoever sends has a larger number than whoever receives, so one pass does.
    """
    found: dict[int, frozenset[int]] = {}
    for node in reversed(graph.nodes):
        own = frozenset({node.id}) if node.id in by_node else found.get(node.id, frozenset())
        for edge, sent in zip(node.edges, node.gradients, strict=False):
            if own and edge is not None and sent is not None and sent.is_zero:
                found[edge.target] = found.get(edge.target, frozenset()) | own
    return found
