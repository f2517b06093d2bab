"""Parameters with several uses: which part of their gradient comes from which use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradviz.graph.model import Graph, Node

MAX_USES = 6
"""More uses, such as one in every step of a loop, do not fit into a sentence."""


@dataclass(frozen=True)
class SharedWeight:
    """A leaf, and the nodes that sent it gradients with their shares, the largest first."""

    leaf: Node
    uses: tuple[tuple[Node, float], ...]


def shared_weights(graph: Graph) -> Iterator[SharedWeight]:
    """Parameters with a few uses whose shares are known, in creation order."""
    uses: dict[int, list[tuple[Node, float | None]]] = {}
    for node in graph.nodes:
        for edge, branch in zip(node.edges, node.shares, strict=False):
            if edge is not None and graph.nodes[edge.target].kind == "parameter":
                uses.setdefault(edge.target, []).append((node, branch.share if branch is not None else None))
    for leaf, found in uses.items():
        known = [(node, share) for node, share in found if share is not None]
        if 1 < len(found) <= MAX_USES and len(known) == len(found):
            yield SharedWeight(graph.nodes[leaf], tuple(sorted(known, key=lambda use: -use[1])))
