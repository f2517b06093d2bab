"""The backward calls of one rank: which parameters each has, and the lines that use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradviz.analysis.finding import Location, location_of_line
from gradviz.capture.capture import Capture
from gradviz.graph.model import Graph, Node
from gradviz.graph.query.own_line import own_line


def parameter_nodes(graph: Graph) -> Iterator[Node]:
    """The nodes of the parameters that a graph has."""
    return (node for node in graph.nodes if node.kind == "parameter" and node.names)


def parameter_names(graph: Graph) -> frozenset[str]:
    """The parameters that a graph has."""
    return frozenset(node.names[0] for node in parameter_nodes(graph))


def location_of_use(graph: Graph, names: Sequence[str]) -> Location | None:
    """The first line that uses one of these parameters."""
    leaves = {node.id for node in parameter_nodes(graph) if node.names[0] in names}
    users = [node for node in graph.nodes if any(edge is not None and edge.target in leaves for edge in node.edges)]
    sites = [node.call_site for node in users if node.call_site is not None]
    return location_of_line(graph.call_sites[own_line(graph.call_sites, sites[0])]) if sites else None


def location_of_backward(graph: Graph) -> Location | None:
    """The line that called backward."""
    site = None if graph.backward is None else graph.backward.call_site
    return None if site is None else location_of_line(graph.call_sites[own_line(graph.call_sites, site)])


def graph_of_call(capture: Capture, number: int) -> Graph | None:
    """The graph of a backward call."""
    return next((each for each in capture.graphs if each.backward is not None and each.backward.number == number), None)
