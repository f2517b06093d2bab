"""What holds for every graph, checked when a file is read and in the tests of everything that makes one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradviz.errors import GradvizError
from gradviz.graph import traversal

if TYPE_CHECKING:
    from gradviz.graph.model import Graph


class InvalidGraph(GradvizError):
    """A graph refers to something that it does not hold, or is computed from itself."""


def check_references(graph: Graph) -> None:
    """Raise `InvalidGraph` at the first reference that points nowhere, or in a circle."""
    _check_nodes(graph)
    _check_tables(graph)
    for root in graph.roots:
        _check(f"root {root.name}", root.node, len(graph.nodes), "node")
    if graph.backward is not None:
        _check("backward", graph.backward.call_site, len(graph.call_sites), "call site")
        _check("backward", graph.backward.failed_node, len(graph.nodes), "node")
    _check_for_circles(graph)
    _check_findings(graph)
    _check_root_shares(graph)


def _check(where: str, index: int | None, count: int, what: str) -> None:
    if index is not None and not 0 <= index < count:
        raise InvalidGraph(f"{where} refers to {what} {index}, but there are {count}")


def _check_nodes(graph: Graph) -> None:
    for position, node in enumerate(graph.nodes):
        where = f"node {node.id}"
        if node.id != position:
            raise InvalidGraph(f"{where} stands at place {position}")
        for edge in node.edges:
            if edge is not None:
                _check(where, edge.target, len(graph.nodes), "node")
        for figures in (node.gradients, node.shares):
            if figures and len(figures) != len(node.edges):
                raise InvalidGraph(f"{where} has {len(node.edges)} edges, but figures for {len(figures)}")
        _check(where, node.call_site, len(graph.call_sites), "call site")
        _check(where, node.scope, len(graph.scopes), "module scope")
        for constant in node.constants:
            _check(where, constant, len(graph.constants), "constant")
        for saved in node.saved:
            _check(where, saved.storage, len(graph.storages), "storage")
            _check(where, saved.source, len(graph.nodes), "node")


def _check_tables(graph: Graph) -> None:
    for index, scope in enumerate(graph.scopes):
        _check(f"module scope {index}", scope.parent, index, "an earlier module scope")
        _check(f"module scope {index}", scope.call_site, len(graph.call_sites), "call site")
    for index, site in enumerate(graph.call_sites):
        _check(f"call site {index}", site.caller, index, "an earlier call site")


def _check_for_circles(graph: Graph) -> None:
    """No node is computed from itself."""
    order = traversal.topological_order(graph)
    if len(order) < len(graph.nodes):
        first = min(set(range(len(graph.nodes))).difference(order))
        raise InvalidGraph(f"the edges around node {first} run in a circle")


def _check_findings(graph: Graph) -> None:
    for finding in graph.findings:
        _check(finding.code, finding.node, len(graph.nodes), "node")
    for ghost in graph.ghost_edges:
        where = f"a ghost edge to {ghost.cut}"
        for node in ghost.nodes:
            _check(where, node, len(graph.nodes), "node")
        _check(where, ghost.refused, len(graph.refused), "refused root")
        _check(where, ghost.constant, len(graph.constants), "constant")
        _check(where, ghost.scope, len(graph.scopes), "module scope")
        if (ghost.node is None) == (ghost.refused is None):
            raise InvalidGraph(f"{where} begins at a node or at a refused root, and not at both")


def _check_root_shares(graph: Graph) -> None:
    if graph.root_shares is None:
        return
    count = len(graph.root_shares.losses)
    for loss in graph.root_shares.losses:
        _check(f"loss {loss.name}", loss.call_site, len(graph.call_sites), "call site")
        for node_id in loss.nodes:
            _check(f"loss {loss.name}", node_id, len(graph.nodes), "node")
    for entry in graph.root_shares.leaves:
        _check("a share of losses", entry.leaf, len(graph.nodes), "node")
        if len(entry.products) != count * count:
            raise InvalidGraph(f"{count} losses have {len(entry.products)} products at node {entry.leaf}")
