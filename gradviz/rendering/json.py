"""The graph as JSON, for programs: everything that was recorded about one graph, folded or not.

Names and nesting are those of `gradviz.graph.model`; a field that has its default is left out, and `graph_schema`
names the defaults. What an allocator says and how long nodes ran are left out: they differ from run to run, and the
same program must give the same bytes; a capture has them. JSON has no infinite numbers: such an attribute of a node is
the text ``inf``, ``-inf`` or ``nan``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gradviz.capture.capture import Parameter, Program, ScriptError
from gradviz.capture.encoding import encoded
from gradviz.graph.model import Attribute, Graph, Node, Scalar
from gradviz.rendering.renderer import Subject

SCHEMA_VERSION = 1
"""Raised when a reader of the older form would misread the newer one.

1   first form
"""


class GraphDocument(Struct, frozen=True, kw_only=True):
    """The whole of a JSON file. Every field is always there."""

    schema: Literal["gradviz graph"] = "gradviz graph"
    version: int = SCHEMA_VERSION
    program: Program
    outcome: Literal["stopped", "finished", "failed", "interrupted"]
    """How the recording ended; ``stopped`` is by gradviz, after the last wanted backward."""
    backward_calls: int
    """How many backward calls the script made; this graph belongs to ``graph.backward``."""
    error: ScriptError | None
    disclosures: tuple[str, ...]
    """What could not be recorded, in plain sentences."""
    parameters: tuple[Parameter, ...]
    sources: dict[str, dict[int, str]]
    """Text of every source line that a call site refers to, by file and line."""
    selection: tuple[str, ...]
    """What part of the recorded graph this is, in plain sentences; empty where it is all of it."""
    graph: Graph


@dataclass(frozen=True)
class JsonRenderer:
    """Writes a `GraphDocument`. Folding is a matter of pictures and changes nothing here."""

    def render(self, subject: Subject) -> str:
        document = encoded(_document(subject), msgspec.json.encode)
        return msgspec.json.format(document, indent=1).decode() + "\n"


def graph_schema() -> dict[str, Any]:
    """JSON Schema of what `JsonRenderer` writes."""
    return msgspec.json.schema(GraphDocument)


def _document(subject: Subject) -> GraphDocument:
    capture, graph = subject.capture, subject.graph
    return GraphDocument(
        program=capture.program,
        outcome=capture.outcome,
        backward_calls=capture.backward_calls,
        error=capture.error,
        disclosures=capture.disclosures,
        parameters=capture.parameters,
        sources=capture.sources,
        selection=subject.selection_notes,
        graph=replace(
            graph, nodes=tuple(_without_time(_with_finite_attributes(node)) for node in graph.nodes), allocators=()
        ),
    )


def _without_time(node: Node) -> Node:
    return node if node.run is None else replace(node, run=replace(node.run, seconds=0.0))


def _with_finite_attributes(node: Node) -> Node:
    """The node itself, unless JSON would turn one of its numbers into null."""
    finite = {name: _finite(value) for name, value in node.attributes.items()}
    return node if finite == node.attributes else replace(node, attributes=finite)


def _finite(value: Attribute) -> Attribute:
    return [_finite_scalar(entry) for entry in value] if isinstance(value, list) else _finite_scalar(value)


def _finite_scalar(value: Scalar) -> Scalar:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
