"""What no folding and no hiding takes out of sight.

This is the one place where such nodes enter: all that is told apart by it is told apart everywhere.
"""

from __future__ import annotations

from gradviz.graph.model import Graph


def operations_with_problems(graph: Graph) -> frozenset[int]:
    """Operations in which backward failed, or which a check found to be wrong or cut off."""
    wrong = {each.node for each in graph.findings if each.is_alarm}
    wrong.update(node for edge in graph.cut_edges if edge.finding.is_alarm for node in edge.nodes)
    return frozenset((*failed_operations(graph), *(node for node in wrong if not graph.nodes[node].is_leaf)))


def failed_operations(graph: Graph) -> tuple[int, ...]:
    """The operation in which backward failed; none where it did not, or failed at a leaf."""
    failed = graph.failed_node
    return () if failed is None or graph.nodes[failed].is_leaf else (failed,)
