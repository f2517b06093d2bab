"""Walks a graph: order, reachability and depth, each with an explicit stack and in linear time.

*Ancestors* and *descendants* follow the data: the ancestors of a node are the nodes that it was computed from, where
``next_functions`` leads; its descendants were computed from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradviz.graph.model import Graph, ModuleScope, Node


def consumers(graph: Graph) -> list[list[int]]:
    """For each node the nodes that take its output, one entry for each edge, in creation order."""
    users: list[list[int]] = [[] for _ in graph.nodes]
    for node in graph.nodes:
        for edge in node.edges:
            if edge is not None:
                users[edge.target].append(node.id)
    return users


def topological_order(graph: Graph) -> Sequence[int]:
    """Ids with every node after all its ancestors: in creation order if possible."""
    in_creation_order = all(edge is None or edge.target < node.id for node in graph.nodes for edge in node.edges)
    return range(len(graph.nodes)) if in_creation_order else _sorted_by_dependency(graph)


def _sorted_by_dependency(graph: Graph) -> list[int]:
    """Ids sorted by dependency; several threads may have numbered the nodes in any order."""
    waiting = [sum(edge is not None for edge in node.edges) for node in graph.nodes]
    users = consumers(graph)
    order = [node.id for node in graph.nodes if not waiting[node.id]]
    for done in order:  # the list grows while it is walked
        for user in users[done]:
            waiting[user] -= 1
            if not waiting[user]:
                order.append(user)
    return order


def ancestors(graph: Graph, starts: Iterable[int]) -> set[int]:
    """`starts` and everything they were computed from."""
    reached = set(starts)
    stack = list(reached)
    while stack:
        for edge in graph.nodes[stack.pop()].edges:
            if edge is not None and edge.target not in reached:
                reached.add(edge.target)
                stack.append(edge.target)
    return reached


def descendants(graph: Graph, starts: Iterable[int]) -> set[int]:
    """`starts` and everything that was computed from them."""
    users = consumers(graph)
    reached = set(starts)
    stack = list(reached)
    while stack:
        for user in users[stack.pop()]:
            if user not in reached:
                reached.add(user)
                stack.append(user)
    return reached


def ancestor_nodes(graph: Graph, node: Node) -> tuple[Node, ...]:
    """The nodes that a node was computed from, in creation order, without the node itself."""
    return tuple(graph.nodes[each] for each in sorted(ancestors(graph, [node.id])) if each != node.id)


def descendant_nodes(graph: Graph, node: Node) -> tuple[Node, ...]:
    """The nodes that were computed from a node, in creation order, without the node itself."""
    return tuple(graph.nodes[each] for each in sorted(descendants(graph, [node.id])) if each != node.id)


def behind_views(graph: Graph, node: int, output_nr: int = 0) -> tuple[int, int]:
    """The node that made the memory of an output, and the number of the output there: the same output unless it is a
    view."""
    known = graph.nodes[node]
    while known.kind == "view" and len(known.edges) == 1 and known.edges[0] is not None:
        node, output_nr = known.edges[0].target, known.edges[0].input_nr
        known = graph.nodes[node]
    return node, output_nr


def scopes_around(scopes: Sequence[ModuleScope], scope: int | None) -> Iterator[int]:
    """A module call and the calls around it, innermost first; empty where there is no call."""
    while scope is not None:
        yield scope
        scope = scopes[scope].parent


def depths(graph: Graph) -> list[int]:
    """For each node the length of the longest path to it from a node without ancestors."""
    depth = [0] * len(graph.nodes)
    for node in topological_order(graph):
        for edge in graph.nodes[node].edges:
            if edge is not None and depth[edge.target] >= depth[node]:
                depth[node] = depth[edge.target] + 1
    return depth
