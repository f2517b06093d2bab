"""Backward calls that raised, with the node in which they did and what its failure keeps from getting a gradient."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.graph.call_log import Call, CallLog
from gradviz.graph.model import Graph, Node


class RaisedBackward(Struct, frozen=True):
    """One call that raised inside the engine, and whose graph was recorded."""

    call: Call
    graph: int
    """Number of its graph."""
    node: Node | None
    """The node that failed; None where that cannot be told."""
    starved: tuple[str, ...]
    """Names of the leaves that wait for a gradient behind that node, or anywhere where it is unknown."""
    waiting: tuple[str, ...]
    """Names of all leaves that had got nothing when it raised."""

    @property
    def message(self) -> str:
        """First line of what was raised, with its type."""
        return self.call.raised or ""


def raised_backwards(log: CallLog, graphs: tuple[Graph, ...]) -> Iterator[RaisedBackward]:
    """Every one of the run, in order: the last of them is often the program's end."""
    numbers = {str(graph.backward.number): place for place, graph in enumerate(graphs) if graph.backward is not None}
    for call in log.calls:
        place = numbers.get(call.name or "")
        if call.kind == "backward" and call.raised is not None and place is not None:
            graph = graphs[place]
            assert graph.backward is not None
            failed = graph.backward.failed_node
            node = None if failed is None else graph.nodes[failed]
            yield RaisedBackward(call, place, node, _starved(graph, node), _starved(graph, None))


def _starved(graph: Graph, node: Node | None) -> tuple[str, ...]:
    behind = graph.nodes if node is None else (*graph.ancestors(node), node)
    return tuple(leaf.names[0] for leaf in behind if leaf.is_leaf and leaf.names and leaf.run is None)
