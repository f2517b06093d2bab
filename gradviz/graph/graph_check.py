"""What holds for every graph, checked when a file is read and in the tests of everything that makes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gradviz.errors import GradvizError

if TYPE_CHECKING:
    from gradviz.graph.model import Graph


class InvalidGraph(GradvizError):
    """A graph refers to something that it does not hold, or is computed from itself."""


def check_references(graph: Graph) -> None:
    """Raise `InvalidGraph` at the first reference that points nowhere, or in a circle."""

    def check(where: str, index: int | None, count: int, what: str) -> None:
        if index is not None and not 0 <= index < count:
            raise InvalidGraph(f"{where} refers to {what} {index}, but there are {count}")

    for position, node in enumerate(graph.nodes):
        where = f"node {node.id}"
        if node.id != position:
            raise InvalidGraph(f"{where} stands at place {position}")
        for edge in node.edges:
            if edge is not None:
                check(where, edge.target, len(graph.nodes), "node")
        for figures in (node.gradients, node.shares):
            if figures and len(figures) != len(node.edges):
                raise InvalidGraph(f"{where} has {len(node.edges)} edges, but figures for {len(figures)}")
        check(where, node.call_site, len(graph.call_sites), "call site")
        check(where, node.scope, len(graph.scopes), "module scope")
        for constant in node.constants:
            check(where, constant, len(graph.constants), "constant")
        for saved in node.saved:
            check(where, saved.storage, len(graph.storages), "storage")
            check(where, saved.source, len(graph.nodes), "node")
    for index, scope in enumerate(graph.scopes):
        check(f"module scope {index}", scope.parent, index, "an earlier module scope")
        check(f"module scope {index}", scope.call_site, len(graph.call_sites), "call site")
    for index, site in enumerate(graph.call_sites):
        check(f"call site {index}", site.caller, index, "an earlier call site")
    for root in graph.roots:
        check(f"root {root.name}", root.node, len(graph.nodes), "node")
    if graph.backward is not None:
        check("backward", graph.backward.call_site, len(graph.call_sites), "call site")
        check("backward", graph.backward.failed_node, len(graph.nodes), "node")
    _check_for_circles(graph)
    _check_findings(graph, check)
    if graph.root_shares is not None:
        count = len(graph.root_shares.losses)
        for loss in graph.root_shares.losses:
            check(f"loss {loss.name}", loss.call_site, len(graph.call_sites), "call site")
            for node_id in loss.nodes:
                check(f"loss {loss.name}", node_id, len(graph.nodes), "node")
        for entry in graph.root_shares.leaves:
            check("a share of losses", entry.leaf, len(graph.nodes), "node")
            if len(entry.products) != count * count:
                raise InvalidGraph(f"{count} losses have {len(entry.products)} products at node {entry.leaf}")


def _check_for_circles(graph: Graph) -> None:
    """No node is computed from itself. Where all take data from earlier ones, as usual, that is seen at once."""
    if all(edge is None or edge.target < node.id for node in graph.nodes for edge in node.edges):
        return
    takers = [0] * len(graph.nodes)
    for node in graph.nodes:
        for edge in node.edges:
            if edge is not None:
                takers[edge.target] += 1
    free = [place for place, count in enumerate(takers) if not count]
    for place in free:  # grows while it is walked
        for edge in graph.nodes[place].edges:
            if edge is not None:
                takers[edge.target] -= 1
                if not takers[edge.target]:
                    free.append(edge.target)
    if len(free) < len(graph.nodes):
        first = next(place for place, count in enumerate(takers) if count)
        raise InvalidGraph(f"the edges around node {first} run in a circle")


def _check_findings(graph: Graph, check: Callable[[str, int | None, int, str], None]) -> None:
    for finding in graph.findings:
        check(finding.code, finding.node, len(graph.nodes), "node")
    for ghost in graph.ghost_edges:
        where = f"a ghost edge to {ghost.cut}"
        for node in ghost.nodes:
            check(where, node, len(graph.nodes), "node")
        check(where, ghost.refused, len(graph.refused), "refused root")
        check(where, ghost.constant, len(graph.constants), "constant")
        check(where, ghost.scope, len(graph.scopes), "module scope")
        if (ghost.node is None) == (ghost.refused is None):
            raise InvalidGraph(f"{where} begins at a node or at a refused root, and not at both")
