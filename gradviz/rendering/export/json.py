"""The graph as JSON, for programs: everything that was recorded about one graph, folded or not.

Names and nesting are those of `gradviz.graph.model`. A field with its default value is left out; `graph_schema` lists
the defaults. Allocator readings and the run times of nodes are left out too: they differ from run to run, and the same
program must give the same bytes. The capture has them. JSON has no infinite numbers: if an attribute of a node or a
number of a tensor kept by ``--values`` is infinite or NaN, it is written as the text ``inf``, ``-inf`` or ``nan``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gradviz.capture.capture import Parameter, Program, ScriptError
from gradviz.capture.encoding import json_text
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Attribute, Graph, Node, Scalar
from gradviz.rendering.formats import Subject

SCHEMA_VERSION = 1
"""Increased when a program that reads the older form would misread the newer one.

1   first form
"""


class GraphDocument(Struct, frozen=True, kw_only=True):
    """The content of a JSON file. Every field is always present."""

    schema: Literal["gradviz graph"] = "gradviz graph"
    version: int = SCHEMA_VERSION
    program: Program
    outcome: Literal["stopped", "finished", "failed", "interrupted"]
    """How the recording ended. ``stopped``: gradviz stopped it after the last wanted backward."""
    backward_calls: int
    """How many backward calls the script made. This graph belongs to ``graph.backward``."""
    error: ScriptError | None
    disclosures: tuple[str, ...]
    """What could not be recorded, in sentences."""
    parameters: tuple[Parameter, ...]
    sources: dict[str, dict[int, str]]
    """The text of every source line that a call site refers to, by file and line."""
    selection: tuple[str, ...]
    """Which part of the recorded graph this is, in sentences; empty if it is the whole graph."""
    graph: Graph


@dataclass(frozen=True)
class JsonRenderer:
    """Writes a `GraphDocument`. Folding only affects pictures, so it changes nothing here."""

    def render(self, subject: Subject) -> str:
        return json_text(_document(subject))


def graph_schema() -> dict[str, Any]:
    """The JSON Schema of what `JsonRenderer` writes."""
    return schema_with_all_numbers(GraphDocument)


def schema_with_all_numbers(document: type) -> dict[str, Any]:
    """The schema of a document whose tensor numbers went through `finite_figures`."""
    schema = msgspec.json.schema(document)
    number = {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]}
    for kind in schema["$defs"]["TensorFigures"]["properties"]["values"]["anyOf"]:
        if kind["type"] == "array":
            kind["items"] = number
    return schema


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
            graph,
            nodes=tuple(_with_finite_values(_without_time(_with_finite_attributes(node))) for node in graph.nodes),
            roots=tuple(replace(root, gradient=finite_figures(root.gradient)) for root in graph.roots),
            constants=tuple(replace(constant, value=finite_figures(constant.value)) for constant in graph.constants),
            allocators=(),
        ),
    )


def _with_finite_values(node: Node) -> Node:
    """The node, with tensor numbers that JSON does not have replaced."""
    of_node = {name: getattr(node, name) for name in ("gradients", "arrived", "before_hooks", "values")}
    changed = {name: tuple(map(finite_figures, figures)) for name, figures in of_node.items() if figures}
    leaf = node.leaf_gradient
    if leaf is not None:
        leaf = replace(leaf, before=finite_figures(leaf.before), after=finite_figures(leaf.after))
    return replace(node, **changed, leaf_gradient=leaf) if changed or leaf is not None else node


def finite_figures(figures: TensorFigures | None) -> TensorFigures | None:
    """The figures, with ``"inf"``, ``"-inf"`` and ``"nan"`` in place of numbers that JSON does not have."""
    if figures is None or figures.values is None or all(map(math.isfinite, figures.values)):
        return figures
    # Only in the output may a tensor's number be text.
    return replace(figures, values=tuple(map(_finite_scalar, figures.values)))


def _without_time(node: Node) -> Node:
    return node if node.run is None else replace(node, run=replace(node.run, seconds=0.0, is_gpu_time=False))


def _with_finite_attributes(node: Node) -> Node:
    """The node, with attributes that JSON would write as null replaced."""
    finite = {name: _finite(value) for name, value in node.attributes.items()}
    return node if finite == node.attributes else replace(node, attributes=finite)


def _finite(value: Attribute) -> Attribute:
    return [_finite_scalar(entry) for entry in value] if isinstance(value, list) else _finite_scalar(value)


def _finite_scalar(value: Scalar) -> Scalar:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
