"""Which times of the engine a graph has: compiled code has a single one for all operations inside."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.graph.model import Graph, Node, Region


def timed(graph: Graph) -> Iterator[Node | Region]:
    """Everything with a time of its own: nodes, and for those inside of compiled code their region."""
    yield from (node for node in graph.nodes if has_own_time(node))
    yield from (region for region in graph.regions if region.run is not None and not region.closed)


def has_own_time(node: Node) -> bool:
    """Whether the engine ran the node, and not compiled code of which it is a part."""
    return node.run is not None and not node.inner_nr
