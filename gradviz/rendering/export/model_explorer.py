"""The graph as JSON for Google's Model Explorer, in the form of its ``GraphCollection``.

Model Explorer folds and lays out by itself, so the file has every node, constant and root; its layers are module calls.
``sourceNodeOutputId`` of an edge is the output of the source, ``targetNodeInputId`` the position among the inputs of
the target. All values are text, as Model Explorer requires.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

import msgspec
from msgspec import Struct

from gradviz.graph.model import Graph, TensorFacts
from gradviz.graph.query.networkx import plain_nodes
from gradviz.graph.query.operation_names import constant_names
from gradviz.graph.query.root_names import refused_name, root_names
from gradviz.rendering.formats import Subject
from gradviz.rendering.look.palette import LIGHT, Role
from gradviz.rendering.svg.frame import call_facts, remarks
from gradviz.rendering.words.box_words import relative_path
from gradviz.safe_text import json_escaped, one_line

_SHOWN_ELSEWHERE = ("label", "is_leaf", "shape", "dtype", "device")
"""Attributes of a node that its label or its outputs show already."""


class KeyValue(Struct, frozen=True):
    key: str
    value: str


class MetadataItem(Struct, frozen=True):
    """The facts about one output."""

    id: str
    attrs: list[KeyValue]


class IncomingEdge(Struct, frozen=True, rename="camel"):
    source_node_id: str
    source_node_output_id: str
    target_node_input_id: str


class NodeStyle(Struct, frozen=True, rename="camel"):
    background_color: str
    border_color: str


class GraphNode(Struct, rename="camel", kw_only=True, omit_defaults=True):
    id: str
    label: str
    namespace: str
    """The layers around it, joined by slashes."""
    attrs: list[KeyValue] = []
    incoming_edges: list[IncomingEdge] = []
    outputs_metadata: list[MetadataItem] = []
    style: NodeStyle


class ExplorerGraph(Struct, rename="camel"):
    id: str
    nodes: list[GraphNode]
    group_node_attributes: dict[str, dict[str, str]]
    """Attributes of the layers. Those of the empty name belong to the whole graph."""


class GraphCollection(Struct):
    """The content of a file."""

    label: str
    graphs: list[ExplorerGraph]


@dataclass(frozen=True)
class ModelExplorerRenderer:
    """Writes a `GraphCollection` of one graph. Folding only affects pictures, so it changes nothing here."""

    def render(self, subject: Subject) -> str:
        graph = subject.graph
        layers = _Layers(graph)
        nodes = [*_constants(graph, layers), *_nodes(graph, layers), *_roots(graph)]
        name = one_line(subject.capture.program.name)
        call = f"backward {graph.backward.number}" if graph.backward else "graph"
        groups = {"": _facts(subject)} | layers.attributes()
        collection = GraphCollection(name, [ExplorerGraph(call, nodes, groups)])
        return json_escaped(msgspec.json.encode(collection).decode()) + "\n"


def _facts(subject: Subject) -> dict[str, str]:
    """What the side panel shows while no node is selected."""
    error, _ = remarks(subject)
    facts = {"recorded": call_facts(subject)} | ({"error": one_line(error)} if error else {})
    notes = [*subject.selection_notes, *subject.capture.disclosures]
    return facts | {f"note {number}": one_line(note) for number, note in enumerate(notes, 1)}


def _nodes(graph: Graph, layers: _Layers) -> Iterator[GraphNode]:
    for node, (_, attributes) in zip(graph.nodes, plain_nodes(graph), strict=True):
        inputs = [
            _incoming(f"n{edge.target}", edge.input_nr, position) for position, edge in enumerate(node.edges) if edge
        ]
        constants = [
            _incoming(f"c{constant}", 0, position) for position, constant in enumerate(node.constants, len(node.edges))
        ]
        yield GraphNode(
            id=f"n{node.id}",
            label=one_line(str(attributes["label"])),
            namespace=layers.of_node[node.id],
            attrs=[*_pairs(attributes, without=_SHOWN_ELSEWHERE), *_pairs(node.attributes)],
            incoming_edges=inputs + constants,
            outputs_metadata=[item for number, tensor in enumerate(node.outputs) for item in _output(number, tensor)],
            style=_style(node.kind),
        )


def _constants(graph: Graph, layers: _Layers) -> Iterator[GraphNode]:
    for number, constant in enumerate(graph.constants):
        yield GraphNode(
            id=f"c{number}",
            label=one_line(constant_names(constant)[0]),
            namespace=layers.of_constant[number],
            attrs=_pairs({"kind": f"{constant.kind}, no gradient", "names": ", ".join(constant.names)}),
            outputs_metadata=_output(0, constant.tensor),
            style=_style("constant"),
        )


def _roots(graph: Graph) -> Iterator[GraphNode]:
    for number, (root, name) in enumerate(zip(graph.roots, root_names(graph), strict=True)):
        yield GraphNode(
            id=f"r{number}",
            label=one_line(name),
            namespace="",
            attrs=_pairs({"kind": "root of backward"}),
            incoming_edges=[_incoming(f"n{root.node}", root.output_nr, 0)],
            style=_style("root"),
        )
    for number, refused in enumerate(graph.refused):
        cut_off = [node for edge in graph.cut_edges if edge.refused == number for node in edge.sources]
        cuts = ", ".join(dict.fromkeys(edge.cut for edge in graph.cut_edges if edge.refused == number))
        yield GraphNode(
            id=f"u{number}",
            label=one_line(refused_name(refused)),
            namespace="",
            attrs=_pairs({"kind": "root that requires no grad", "cut_off_by": cuts}),
            incoming_edges=[_incoming(f"n{node}", 0, 0) for node in dict.fromkeys(cut_off)],
            style=_style("refused"),
        )


def _incoming(source: str, output: int, position: int) -> IncomingEdge:
    return IncomingEdge(source, str(output), str(position))


def _output(number: int, tensor: TensorFacts | None) -> list[MetadataItem]:
    if tensor is None:
        return []
    shape = ",".join(map(str, tensor.shape))
    # Model Explorer shows an attribute with this name beside the links.
    return [MetadataItem(str(number), _pairs({"tensor_shape": f"{tensor.dtype}[{shape}]", "device": tensor.device}))]


def _pairs(attributes: Mapping[str, object], *, without: Collection[str] = ()) -> list[KeyValue]:
    shown = {key: value for key, value in attributes.items() if key not in without and value != ""}
    return [KeyValue(one_line(key), one_line(str(value))) for key, value in shown.items()]


def _style(role: Role) -> NodeStyle:
    ink = LIGHT.roles[role]
    # Model Explorer draws all words in black, so a dark fill would hide them.
    return NodeStyle(LIGHT.roles["box"].fill if role == "root" else ink.fill, ink.line)


class _Layers:
    """The namespace of each node: its module call, or the common part of the namespaces of all its users."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._of_scope = list(_namespaces(graph))
        self.of_node = ["" if node.scope is None else self._of_scope[node.scope] for node in graph.nodes]
        users_of_leaves: dict[int, str] = {}
        users_of_constants: dict[int, str] = {}
        for node in graph.nodes:
            own = self.of_node[node.id]
            for edge in filter(None, node.edges):
                if graph.nodes[edge.target].is_leaf:
                    users_of_leaves[edge.target] = _shared(users_of_leaves.get(edge.target, own), own)
            for constant in node.constants:
                users_of_constants[constant] = _shared(users_of_constants.get(constant, own), own)
        for leaf, namespace in users_of_leaves.items():
            self.of_node[leaf] = namespace
        self.of_constant = [users_of_constants.get(number, "") for number in range(len(graph.constants))]

    def attributes(self) -> dict[str, dict[str, str]]:
        """What the side panel shows for each module call."""
        return {
            namespace: {"class": one_line(scope.class_name), "path": one_line(scope.path), "call": str(scope.call + 1)}
            for scope, namespace in zip(self._graph.scopes, self._of_scope, strict=True)
        }


def _namespaces(graph: Graph) -> Iterator[str]:
    """For each module call, its path of layers; each part of ``h.0`` is a layer."""
    made: list[str] = []
    for scope in graph.scopes:
        around = "" if scope.parent is None else graph.scopes[scope.parent].path
        own = one_line(relative_path(scope.path, around)).replace("/", "∕")
        layers = own.replace(".", "/") if scope.kind == "module" else own
        layers += f" (call {scope.call + 1})" if scope.call else ""
        made.append(layers if scope.parent is None else f"{made[scope.parent]}/{layers}")
        yield made[-1]


def _shared(one: str, other: str) -> str:
    """The layers that both paths start with."""
    if one == other:
        return one
    pairs = zip(one.split("/"), other.split("/"), strict=False)
    return "/".join(layer for layer, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
