"""Puts cuts into a view: beside the operation that took what a cut gave, and behind it what gets no gradient.

The cut takes the place of the constant that it gave. It is drawn in the box of the module call in which it ran, as far
as that is open around the operation, and in each box once, however many operations took something from it. A folded box
hides those that ran in it.

Where backward was refused, nothing in the graph took what the cut gave: it is drawn behind the operation whose result
it was given, before the root that was refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gradviz.graph.model import Graph
from gradviz.graph.node_findings import CutEdge
from gradviz.graph.traversal import scopes_around
from gradviz.view.fold.plumbing import Connections
from gradviz.view.items.boxes import BoxPlacement, Draft


def constants_of_cuts(graph: Graph) -> frozenset[tuple[int, int]]:
    """Nodes, each with a constant that a cut is drawn for instead."""
    edges = graph.cut_edges
    return frozenset(
        (edge.node, edge.constant) for edge in edges if edge.node is not None and edge.constant is not None
    )


def draft_cuts(graph: Graph, connections: Connections, placement: BoxPlacement) -> Iterator[tuple[int, int]]:
    """Draft every cut and what it cuts off; yields their links, each as source and target."""
    cut_edges = _CutDrafts(graph, connections, placement)
    for number, edge in enumerate(graph.cut_edges):
        yield from (
            cut_edges.where_taken(number, edge) if edge.refused is None else cut_edges.before_refused(number, edge)
        )


class _Place(NamedTuple):
    """Where a cut is drawn, once for each of these."""

    origin: tuple[str, str, int]
    box: int | None


class _CutDrafts:
    def __init__(self, graph: Graph, connections: Connections, placement: BoxPlacement) -> None:
        self._graph, self._connections, self._placement = graph, connections, placement
        self._cuts: dict[_Place, int] = {}
        """The drafts of cuts."""
        self._ending_at: dict[_Place, list[int]] = {}
        """Indices of the edges that end there."""

    def where_taken(self, number: int, edge: CutEdge) -> Iterator[tuple[int, int]]:
        """A cut whose result an operation of the graph took, or that made a leaf of it."""
        assert edge.node is not None, "what was not refused begins at a node"
        graph, placement = self._graph, self._placement
        user = beside = self._item_of(edge.node)
        if graph.nodes[edge.node].is_leaf:
            beside = _user_of(placement, user)
        shared = _shared_depth(graph, edge.scope, self._scope_at(edge.node, beside))
        if _holds(graph, placement, beside, shared):
            return  # It is folded away together with what took its result.
        parent = _box_of(graph, placement, shared, beside)
        yield from self._cut_before(user, number, _Place(edge.origin, parent), beside)

    def before_refused(self, number: int, edge: CutEdge) -> Iterator[tuple[int, int]]:
        """A cut from whose result a tensor was computed that backward was called on in vain."""
        drafts = self._placement.drafts
        root = next(key for key, draft in enumerate(drafts) if draft.refused == edge.refused)
        sources = dict.fromkeys(map(self._item_of, edge.sources))
        parent = None
        for node in edge.sources[:1]:
            shared = _shared_depth(self._graph, edge.scope, self._graph.nodes[node].scope)
            parent = _box_of(self._graph, self._placement, shared, self._item_of(node))
        place = _Place(edge.origin, parent)
        yield from self._cut_before(root, number, place, root if parent is None else None)
        yield from ((source, self._cuts[place]) for source in sources)

    def _cut_before(self, user: int, number: int, place: _Place, beside: int | None) -> Iterator[tuple[int, int]]:
        """One draft for each cut in each box, behind it what it cuts off, where the graph does not show that."""
        edge, new = self._graph.cut_edges[number], self._placement.new
        cut_edges = self._ending_at.setdefault(place, [])
        if not cut_edges or edge.node is None or not self._placement.is_later[edge.node]:
            cut_edges.append(number)  # What is drawn of repetitions is the first.
        if place not in self._cuts:
            behind = [new(Draft("cut_off", place.box, cut_edges=cut_edges), beside=beside)] if edge.tensors else []
            self._cuts[place] = new(Draft("cut", place.box, cut_edges=cut_edges), beside=beside)
            yield from ((each, self._cuts[place]) for each in behind)
        yield self._cuts[place], user

    def _item_of(self, node: int) -> int:
        """That of a node; of a leaf the first of several, or the folded box that holds it."""
        if self._graph.nodes[node].is_leaf:
            return next(key for key, draft in enumerate(self._placement.drafts) if node in draft.nodes)
        return self._placement.item_of[self._connections.owner[node]]

    def _scope_at(self, node: int, user: int) -> int | None:
        """The module call in which the result of a cut is taken; of a leaf that of its user."""
        scope = self._graph.nodes[node].scope
        if scope is not None:
            return scope
        draft = self._placement.drafts[user]
        return draft.scope if draft.node is None else self._graph.nodes[draft.node].scope


def _user_of(placement: BoxPlacement, item: int) -> int:
    """What an item is drawn beside; itself where that is nothing."""
    return next((key for key, draft in enumerate(placement.drafts) if item in draft.beside), item)


def _box_of(graph: Graph, placement: BoxPlacement, shared: int, user: int) -> int | None:
    """The innermost open box around the user that the cut lies in, too."""
    box = placement.drafts[user].parent
    while box is not None and not _holds(graph, placement, box, shared):
        box = placement.drafts[box].parent
    return box


def _holds(graph: Graph, placement: BoxPlacement, item: int, shared: int) -> bool:
    """Whether an item is the box of one of the outermost `shared` module calls.

    Scopes are compared by depth, since a box that stands for several calls has the scope of the first.
    """
    scope = placement.drafts[item].scope
    return scope is not None and len(list(scopes_around(graph.scopes, scope))) <= shared


def _shared_depth(graph: Graph, one: int | None, other: int | None) -> int:
    """How many module calls lie around both."""
    return len(set(scopes_around(graph.scopes, one)).intersection(scopes_around(graph.scopes, other)))
