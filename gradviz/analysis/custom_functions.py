"""Custom autograd functions of a run: which node is of which call, and where the backward of each is written."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow import Dataflow
from gradviz.analysis.finding import Place
from gradviz.graph.call_log import Call, Definition
from gradviz.graph.model import Graph, Node


class CustomCall(Struct, frozen=True):
    """One node of a custom function, with the call that made it."""

    node: Node
    call: Call
    definition: Definition | None
    """Of its backward; None where that belongs to an installed package."""

    @property
    def function(self) -> str:
        """Name of the class."""
        return self.call.function.removesuffix(".apply")


def custom_call_of(flow: Dataflow, node: Node) -> CustomCall | None:
    """What is known of a node of a custom function; None for all others."""
    row = None if node.is_leaf else flow.call_of_node(node.sequence_nr)
    call = None if row is None else flow.log.calls[row]
    if call is None or call.kind != "custom":
        return None
    return CustomCall(node, call, None if call.definition is None else flow.log.definitions[call.definition])


def custom_calls(flow: Dataflow, graph: Graph) -> Iterator[CustomCall]:
    """Those of a graph, in order of creation."""
    for node in graph.nodes:
        found = custom_call_of(flow, node) if node.kind == "custom" else None
        if found is not None:
            yield found


def return_place(definition: Definition) -> Place:
    """The line that gives something back: the last one, and where nothing is given back, the end of the function."""
    return Place(definition.file, definition.returns[-1] if definition.returns else definition.last_line)
