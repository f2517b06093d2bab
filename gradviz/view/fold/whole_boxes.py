"""Module calls that only one of two compared runs has: drawn as closed boxes, with the boxes around them open."""

from __future__ import annotations

from gradviz.graph.model import Graph
from gradviz.graph.traversal import consumers
from gradviz.view.marks import Marks, NodeState


def split_by_box(graph: Graph, marks: Marks) -> tuple[set[int], set[int]]:
    """The marked nodes that must be visible, and the module calls that are visible instead of the nodes inside."""
    whole = _calls_of_one_run(graph, marks)
    nodes: set[int] = set()
    boxes: set[int] = set()
    users = consumers(graph)
    for node in marks.shown:
        if graph.nodes[node].is_leaf and all(marks.state_of(user) == marks.state_of(node) for user in users[node]):
            continue  # its users are shown
        outermost = None
        scope = graph.nodes[node].scope
        while scope is not None and scope in whole:
            outermost, scope = scope, graph.scopes[scope].parent
        if outermost is None:
            nodes.add(node)
        else:
            boxes.add(outermost)
    return nodes, boxes


def _calls_of_one_run(graph: Graph, marks: Marks) -> set[int]:
    states: list[set[NodeState | None]] = [set() for _ in graph.scopes]
    for node in graph.nodes:
        if not node.is_leaf and node.scope is not None:
            states[node.scope].add(marks.state_of(node.id))
    for index in range(len(graph.scopes) - 1, -1, -1):
        parent = graph.scopes[index].parent
        if parent is not None:
            states[parent] |= states[index]
    return {index for index, found in enumerate(states) if found in ({"only_a"}, {"only_b"})}
