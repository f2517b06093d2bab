"""Nodes that are never folded or hidden.

Everything that treats such nodes differently takes them from here.
"""

from __future__ import annotations

from gradviz.graph.model import Graph


def operations_with_problems(graph: Graph) -> frozenset[int]:
    """Operations in which backward failed, or in which a check found an error or a cut."""
    found = {each.node for each in graph.findings if each.is_alarm}
    found.update(node for edge in graph.cut_edges if edge.finding.is_alarm for node in edge.nodes)
    return frozenset((*failed_operations(graph), *(node for node in found if not graph.nodes[node].is_leaf)))


def failed_operations(graph: Graph) -> tuple[int, ...]:
    """The operation in which backward failed; empty where backward did not fail, or failed at a leaf."""
    failed = graph.failed_node
    return () if failed is None or graph.nodes[failed].is_leaf else (failed,)
