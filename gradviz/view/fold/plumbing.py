"""Which operations only reshape or copy, and how the graph is joined after they are merged into their neighbours.

A transformer block makes a view or transpose for every second operation that computes something. They do not show where
gradients go, so links pass through them, and each belongs to the operation that takes its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradviz.graph.model import Edge, Graph, Node
from gradviz.graph.traversal import consumers, topological_order
from gradviz.view.fold.always_visible import operations_with_problems

PLUMBING_NAMES: frozenset[str] = frozenset(
    f"{stem}Backward{number}"
    for stem in (
        "Alias",
        "Clone",
        "Contiguous",
        "Expand",
        "Flatten",
        "Movedim",
        "Permute",
        "Reshape",
        "ReshapeAlias",
        "Squeeze",
        "SwapAxes",
        "T",
        "ToCopy",
        "Transpose",
        "Unflatten",
        "UnsafeView",
        "Unsqueeze",
        "View",
    )
    for number in range(10)
)
"""Not here: select, slice, split, unbind and gather, which decide *which* values go on."""

COPYING = ("Clone", "Contiguous", "ToCopy")
"""Those that make new storage, as autocast does to change the dtype."""


@dataclass(frozen=True, slots=True)
class Connections:
    """How the remaining operations are joined, and to which of them each node belongs.

    For a merged node, ``owner`` is the operation into which it was merged; for any other, the node itself.
    """

    inputs: list[tuple[Edge | None, ...]]
    """For each node its edges, which pass through merged nodes."""
    owner: list[int]

    def producer(self, node: int) -> Edge:
        """The edge from which the data of `node` comes; to `node` itself unless it was merged."""
        source = self.inputs[node][0] if self.owner[node] != node else Edge(node)
        assert source is not None, "only nodes with one input are merged"
        return source


def connect(graph: Graph, *, keep_plumbing: bool) -> Connections:
    """Join the graph's nodes, with plumbing merged into its neighbours unless `keep_plumbing`."""
    owner = list(range(len(graph.nodes)))
    if keep_plumbing:
        return Connections([node.edges for node in graph.nodes], owner)
    mergeable = _mergeable(graph)
    if not any(mergeable):
        return Connections([node.edges for node in graph.nodes], owner)
    order = topological_order(graph)
    inputs = _pass_through(graph, order, mergeable)
    users = consumers(graph)
    for node in reversed(order):
        if mergeable[node]:
            owner[node] = owner[users[node][0]] if users[node] else _producing_operation(graph, node, inputs[node][0])
    return Connections(inputs, owner)


def _producing_operation(graph: Graph, node: int, source: Edge | None) -> int:
    """The operation into which a last node is merged; itself where only reshaping is between a leaf and a root."""
    return node if source is None or graph.nodes[source.target].is_leaf else source.target


def _mergeable(graph: Graph) -> list[bool]:
    with_problems = operations_with_problems(graph)
    flags = [node.id not in with_problems and _is_plumbing(node, graph) for node in graph.nodes]
    _keep_modules_visible(graph, flags)
    return flags


def _is_plumbing(node: Node, graph: Graph) -> bool:
    if not (node.kind in ("operation", "view") or node.is_recomputed) or len(node.edges) != 1 or node.edges[0] is None:
        return False
    if node.constants or node.hooks:
        return False
    return node.name in PLUMBING_NAMES or (node.kind == "view" and _keeps_all_elements(node, graph))


def _keeps_all_elements(node: Node, graph: Graph) -> bool:
    edge = node.edges[0]
    assert edge is not None, "only called for nodes with one input"
    before = graph.nodes[edge.target].output(edge.input_nr)
    after = node.outputs[0] if len(node.outputs) == 1 else None
    return before is not None and after is not None and before.elements == after.elements is not None


def _keep_modules_visible(graph: Graph, flags: list[bool]) -> None:
    """A module call that only reshapes (`nn.Flatten`) would vanish from the picture: it keeps its nodes."""
    lasting = {node.scope for node in graph.nodes if not node.is_leaf and not flags[node.id]}
    for scope in range(len(graph.scopes) - 1, -1, -1):
        if scope in lasting:
            lasting.add(graph.scopes[scope].parent)
    for node in graph.nodes:
        if node.scope not in lasting and node.scope is not None:
            flags[node.id] = False


def _pass_through(graph: Graph, order: Sequence[int], mergeable: list[bool]) -> list[tuple[Edge | None, ...]]:
    inputs = [node.edges for node in graph.nodes]
    for node in order:
        edges = inputs[node]
        if any(edge is not None and mergeable[edge.target] for edge in edges):
            inputs[node] = tuple(
                inputs[edge.target][0] if edge is not None and mergeable[edge.target] else edge for edge in edges
            )
    return inputs
