"""The way that a gradient takes from a root of its graph to a leaf, in words."""

from __future__ import annotations

from collections import deque

from gradviz.graph.model import Graph, Node

MOST_STATIONS = 7


def way_to_leaf(graph: Graph, leaf: int) -> list[str]:
    """A word for each node of the shortest way, the leaf's last; the middle of a long way is left out."""
    words = [_word(node) for node in _way(graph, leaf)]
    if len(words) <= MOST_STATIONS:
        return words
    left_out = len(words) - MOST_STATIONS + 1
    return [*words[: MOST_STATIONS - 4], f"({left_out} more)", *words[-3:]]


def _way(graph: Graph, leaf: int) -> list[Node]:
    """The shortest way that a gradient takes from a root to a leaf."""
    came_from: dict[int, int | None] = {root.node: None for root in graph.roots}
    waiting = deque(came_from)
    while waiting and leaf not in came_from:
        number = waiting.popleft()
        for edge in graph.nodes[number].edges:
            if edge is not None and edge.target not in came_from:
                came_from[edge.target] = number
                waiting.append(edge.target)
    way: list[Node] = []
    step: int | None = leaf if leaf in came_from else None
    while step is not None:
        way.append(graph.nodes[step])
        step = came_from[step]
    return way[::-1] or [graph.nodes[leaf]]


def _word(node: Node) -> str:
    return node.name.removesuffix("Backward0").removesuffix("Backward1")
