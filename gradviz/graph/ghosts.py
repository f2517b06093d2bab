"""Puts cuts into a view: beside the operation that took what a cut gave, and behind it what gets no gradient.

The cut takes the place of the constant that it gave. It is drawn in the box of the module call in which it ran, as far
as that is open around the operation, and in each box once, however many operations took something from it. A folded box
hides those that ran in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.graph.boxes import BoxPlacement, Draft
from gradviz.graph.model import Graph
from gradviz.graph.node_findings import GhostEdge
from gradviz.graph.plumbing import Connections
from gradviz.graph.traversal import scopes_around


def constants_of_cuts(graph: Graph) -> frozenset[tuple[int, int]]:
    """Nodes, each with a constant that a cut is drawn for instead."""
    edges = graph.ghost_edges
    return frozenset((edge.finding.node, edge.constant) for edge in edges if edge.constant is not None)


def place_ghosts(graph: Graph, connections: Connections, placement: BoxPlacement) -> Iterator[tuple[int, int]]:
    """Draft every cut and what it cuts off; yields their links, each as source and target."""
    cuts: dict[tuple[object, ...], int] = {}
    for number, edge in enumerate(graph.ghost_edges):
        node = edge.finding.node
        user = beside = placement.item_of[connections.owner[node]]
        if graph.nodes[node].is_leaf:
            user = _item_of_leaf(placement, node)
            beside = _user_of(placement, user)
        shared = _shared_depth(graph, edge.scope, _scope_of(graph, placement, edge, beside))
        if _holds(graph, placement, beside, shared):
            continue  # It is folded away together with what took its result.
        parent = _box_of(graph, placement, shared, beside)
        key = (*edge.origin, parent)
        if key not in cuts:
            cut_off = placement.new(Draft("cut_off", parent, ghost=number), beside=beside)
            cuts[key] = placement.new(Draft("cut", parent, ghost=number), beside=beside)
            yield cut_off, cuts[key]
        yield cuts[key], user


def _item_of_leaf(placement: BoxPlacement, leaf: int) -> int:
    """Its own, the first of several, or the folded box that holds it."""
    return next(key for key, draft in enumerate(placement.drafts) if leaf in draft.nodes)


def _user_of(placement: BoxPlacement, item: int) -> int:
    """What an item is drawn beside; itself where that is nothing."""
    return next((key for key, draft in enumerate(placement.drafts) if item in draft.beside), item)


def _scope_of(graph: Graph, placement: BoxPlacement, edge: GhostEdge, user: int) -> int | None:
    """The module call in which the result of a cut is taken; of a leaf that of its user."""
    scope = graph.nodes[edge.finding.node].scope
    if scope is not None:
        return scope
    draft = placement.drafts[user]
    return draft.scope if draft.node is None else graph.nodes[draft.node].scope


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
