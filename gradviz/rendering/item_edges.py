"""The edges of a graph that cross the outline of an item: along them gradients enter it, and leave it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from gradviz.graph.gradients import BranchShare, TensorFigures, at_place
from gradviz.graph.model import Edge, Graph
from gradviz.graph.view import Item


class GradientEdge(NamedTuple):
    """One edge of the graph: `sender` computes a gradient in its backward, and `receiver` gets it."""

    sender: int
    place: int
    """Which of the sender's edges it is."""
    receiver: int


class ItemEdges:
    """Finds them, item by item; an item's own edges, inside it, are left out."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.nodes
        self._arriving: dict[int, list[GradientEdge]] = {}
        for node in graph.nodes:
            for edge in self._sent_by(node.id):
                self._arriving.setdefault(edge.receiver, []).append(edge)

    def entering(self, item: Item) -> Iterator[GradientEdge]:
        """Those along which gradients arrive; of what stands for several repetitions, at the first of them."""
        own = self._drawn_together(item)
        for node in sorted(own):
            yield from (edge for edge in self._arriving.get(node, ()) if edge.sender not in own)

    def leaving(self, item: Item) -> Iterator[GradientEdge]:
        """Those along which gradients go on, of the same."""
        own = self._drawn_together(item)
        for node in sorted(own):
            yield from (edge for edge in self._sent_by(node) if edge.receiver not in own)

    def gradient(self, edge: GradientEdge) -> TensorFigures | None:
        """What was sent along an edge; None where nothing was measured."""
        return at_place(self._nodes[edge.sender].gradients, edge.place)

    def share(self, edge: GradientEdge) -> BranchShare | None:
        """Its part of the sum at the receiver, where it was summed with others."""
        return at_place(self._nodes[edge.sender].shares, edge.place)

    def _sent_by(self, node: int) -> Iterator[GradientEdge]:
        edges: tuple[Edge | None, ...] = self._nodes[node].edges
        return (GradientEdge(node, place, edge.target) for place, edge in enumerate(edges) if edge is not None)

    def _drawn_together(self, item: Item) -> Collection[int]:
        """All of a box; of an operation its node and the views that are merged into it."""
        if item.kind == "box" or item.node is None:
            return frozenset(item.nodes)
        members, name = frozenset(item.nodes), self._nodes[item.node].name
        found, waiting = {item.node}, [item.node]
        while waiting and len(members) > 1:
            node = waiting.pop()
            beside = [edge.receiver for edge in self._sent_by(node)]
            beside += [edge.sender for edge in self._arriving.get(node, ())]
            for other in beside:
                # The same operation again is another repetition.
                if other in members and other not in found and self._nodes[other].name != name:
                    found.add(other)
                    waiting.append(other)
        return found
