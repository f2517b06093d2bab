"""The order in which the engine runs the nodes of a graph: the recorded one, or else the expected one.

The engine keeps ready nodes, for which all gradients have arrived, in a queue, and takes the one that was created last:
`torch/csrc/autograd/engine.cpp`, ``ReadyQueue``. Leaves go before everything else.
"""

from __future__ import annotations

from heapq import heappop, heappush

from gradviz.graph.model import Graph, Node
from gradviz.graph.traversal import ancestors


def order_of_run(graph: Graph) -> list[int]:
    """Ids of the nodes that the engine ran, the first one first; empty if it was not recorded.

    After them come the node in which backward raised, and the nodes whose gradient ``torch.autograd.grad`` returned
    instead of running them.
    """
    ran = [node for node in graph.nodes if node.run is not None]
    if not ran:
        return []
    order = [node.id for node in sorted(ran, key=lambda node: node.run.order if node.run else 0)]
    failed = graph.failed_node
    if failed is not None and graph.nodes[failed].run is None:
        order.append(failed)
    given_back = (node for node in reversed(graph.nodes) if node.run is None and node.id != failed)
    return [*order, *(node.id for node in given_back if any(each is not None for each in node.arrived))]


def expected_order(graph: Graph) -> list[int]:
    """Ids of the nodes that a backward from the roots would run on one thread, the first one first.

    A graph without roots, such as a part of another graph, starts at the nodes that no other node uses.
    """
    starts = {root.node for root in graph.roots}
    if not starts:
        taken = {edge.target for node in graph.nodes for edge in node.edges if edge is not None}
        starts = {node.id for node in graph.nodes if node.id not in taken}
    missing = [0] * len(graph.nodes)
    for reached in ancestors(graph, starts):
        for edge in graph.nodes[reached].edges:
            if edge is not None:
                missing[edge.target] += 1
    queue = _ReadyQueue(graph)
    for start in sorted(starts):
        if not missing[start]:
            queue.put(start)
    order = []
    while queue.entries:
        node = queue.take()
        order.append(node.id)
        for edge in node.edges:
            if edge is None:
                continue
            missing[edge.target] -= 1
            if not missing[edge.target]:
                queue.put(edge.target)
    return order


class _ReadyQueue:
    """Leaves first, then what was created last; ties in the order of arrival."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.nodes
        self._count = 0
        self.entries: list[tuple[bool, int, int, int]] = []

    def put(self, node_id: int) -> None:
        node = self._nodes[node_id]
        created = 0 if node.is_leaf else node.id if node.sequence_nr is None else node.sequence_nr
        heappush(self.entries, (not node.is_leaf, -created, self._count, node_id))
        self._count += 1

    def take(self) -> Node:
        return self._nodes[heappop(self.entries)[-1]]
