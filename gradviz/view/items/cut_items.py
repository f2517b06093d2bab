"""Draws cuts: beside the operation that took the result of the cut, and behind the cut the tensors without gradient.

The cut replaces the constant that it produced. It is drawn in the box of the module call in which it ran, if that box
is open around the operation, and once in each box, however many operations took its result. A folded box hides the cuts
that ran in it.

Where backward was refused, nothing in the graph took the result of the cut: the cut is drawn after the operation whose
result it received, before the root that was refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gradviz.graph.model import Graph
from gradviz.graph.node_findings import CutEdge
from gradviz.graph.traversal import scopes_around
from gradviz.view.fold.plumbing import Connections
from gradviz.view.items.boxes import Draft, ItemDrafts


def constants_of_cuts(graph: Graph) -> frozenset[tuple[int, int]]:
    """Pairs of a node and its constant, for which a cut is drawn instead."""
    edges = graph.cut_edges
    return frozenset(
        (edge.node, edge.constant) for edge in edges if edge.node is not None and edge.constant is not None
    )


def draft_cuts(graph: Graph, connections: Connections, drafted: ItemDrafts) -> Iterator[tuple[int, int]]:
    """Draft every cut and the tensors that it cuts off; yields their links, each as source and target."""
    drafts = _CutDrafts(graph, connections, drafted)
    for number, edge in enumerate(graph.cut_edges):
        yield from (drafts.where_taken(number, edge) if edge.refused is None else drafts.before_refused(number, edge))


class _CutKey(NamedTuple):
    """A cut is drawn once for each of these."""

    origin: tuple[str, str, int]
    box: int | None


class _CutDrafts:
    def __init__(self, graph: Graph, connections: Connections, drafted: ItemDrafts) -> None:
        self._graph, self._connections, self._drafted = graph, connections, drafted
        self._cuts: dict[_CutKey, int] = {}
        """The draft of each cut."""
        self._ending_at: dict[_CutKey, list[int]] = {}
        """Indices of the cut edges that end there."""

    def where_taken(self, number: int, edge: CutEdge) -> Iterator[tuple[int, int]]:
        """A cut whose result was taken by an operation, or became a leaf."""
        assert edge.node is not None, "a cut edge without a refused root begins at a node"
        graph, drafted = self._graph, self._drafted
        user = beside = self._item_of(edge.node)
        if graph.nodes[edge.node].is_leaf:
            beside = _user_of(drafted, user)
        shared = _shared_depth(graph, edge.scope, self._scope_at(edge.node, beside))
        if _holds(graph, drafted, beside, shared):
            return  # It is in the same folded box as the operation that took its result.
        parent = _box_of(graph, drafted, shared, beside)
        yield from self._cut_before(user, number, _CutKey(edge.origin, parent), beside)

    def before_refused(self, number: int, edge: CutEdge) -> Iterator[tuple[int, int]]:
        """A cut before a refused root: a tensor computed from its result, on which backward was called."""
        drafts = self._drafted.drafts
        root = next(key for key, draft in enumerate(drafts) if draft.refused == edge.refused)
        sources = dict.fromkeys(map(self._item_of, edge.sources))
        parent = None
        for node in edge.sources[:1]:
            shared = _shared_depth(self._graph, edge.scope, self._graph.nodes[node].scope)
            parent = _box_of(self._graph, self._drafted, shared, self._item_of(node))
        key = _CutKey(edge.origin, parent)
        yield from self._cut_before(root, number, key, root if parent is None else None)
        yield from ((source, self._cuts[key]) for source in sources)

    def _cut_before(self, user: int, number: int, key: _CutKey, beside: int | None) -> Iterator[tuple[int, int]]:
        """One draft for each cut in each box, with a draft behind it of the tensors it cuts off, where the graph does
        not show them."""
        edge, new = self._graph.cut_edges[number], self._drafted.new
        cut_edges = self._ending_at.setdefault(key, [])
        if not cut_edges or edge.node is None or not self._drafted.is_later[edge.node]:
            cut_edges.append(number)  # Only the first repetition is drawn.
        if key not in self._cuts:
            behind = [new(Draft("cut_off", key.box, cut_edges=cut_edges), beside=beside)] if edge.tensors else []
            self._cuts[key] = new(Draft("cut", key.box, cut_edges=cut_edges), beside=beside)
            yield from ((each, self._cuts[key]) for each in behind)
        yield self._cuts[key], user

    def _item_of(self, node: int) -> int:
        """The item of a node; for a leaf the first of several, or the folded box that holds it."""
        if self._graph.nodes[node].is_leaf:
            return next(key for key, draft in enumerate(self._drafted.drafts) if node in draft.nodes)
        return self._drafted.item_of[self._connections.owner[node]]

    def _scope_at(self, node: int, user: int) -> int | None:
        """The module call in which the result of a cut is taken; for a leaf that of its user."""
        scope = self._graph.nodes[node].scope
        if scope is not None:
            return scope
        draft = self._drafted.drafts[user]
        return draft.scope if draft.node is None else self._graph.nodes[draft.node].scope


def _user_of(drafted: ItemDrafts, item: int) -> int:
    """The item beside which an item is drawn; itself where there is none."""
    return next((key for key, draft in enumerate(drafted.drafts) if item in draft.beside), item)


def _box_of(graph: Graph, drafted: ItemDrafts, shared: int, user: int) -> int | None:
    """The innermost open box around the user in which the cut is, too."""
    box = drafted.drafts[user].parent
    while box is not None and not _holds(graph, drafted, box, shared):
        box = drafted.drafts[box].parent
    return box


def _holds(graph: Graph, drafted: ItemDrafts, item: int, shared: int) -> bool:
    """Whether an item is the box of one of the outermost `shared` module calls.

    Scopes are compared by depth, because the box of several calls has the scope of the first.
    """
    scope = drafted.drafts[item].scope
    return scope is not None and len(list(scopes_around(graph.scopes, scope))) <= shared


def _shared_depth(graph: Graph, one: int | None, other: int | None) -> int:
    """The number of module calls that contain both."""
    return len(set(scopes_around(graph.scopes, one)).intersection(scopes_around(graph.scopes, other)))
