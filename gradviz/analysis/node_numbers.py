"""What one node of a capture had to do with: its inputs, the gradient that arrived, what it saved and what it sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import Struct

from gradviz.capture.capture import Capture
from gradviz.formulas.arguments import edge_names, result_names, tensor_arguments
from gradviz.formulas.derivative import Derivative
from gradviz.formulas.plain import plain_formula
from gradviz.graph.gradients import LeafGradient, TensorFigures
from gradviz.graph.model import Attribute, Constant, Edge, Graph, Node
from gradviz.graph.operation_words import autograd_name, constant_names
from gradviz.graph.saved_tensors import SavedTensor
from gradviz.graph.source_lines import readers_lines
from gradviz.graph.tensor_facts import TensorFacts


class NamedTensor(Struct, frozen=True, omit_defaults=True):
    """A tensor, or a gradient, by its name in the formula."""

    name: str
    """``self``, ``result``, ``grad``; ``input 0`` where no schema names it."""
    variables: tuple[str, ...] = ()
    """What the program calls it."""
    tensor: TensorFacts | None = None
    figures: TensorFigures | None = None
    """With every number, where it is small and was recorded."""
    node: int | None = None
    """Id of the node that produced it, or, of a gradient that was sent, of the one that received it."""
    node_name: str = ""
    view_of: tuple[str, ...] = ()
    """Names of the tensor that it is a view of, as nn.Linear takes its weight transposed."""
    wants_gradient: bool = True


class NodeNumbers(Struct, frozen=True, omit_defaults=True):
    """One node of a capture."""

    id: int
    name: str
    backward: int | None = None
    """Which backward call of the run, counted from 1."""
    file: str | None = None
    line: int | None = None
    source: str = ""
    """Text of that line."""
    function: str = ""
    """The torch function that was called."""
    module: str = ""
    inputs: tuple[NamedTensor, ...] = ()
    attributes: dict[str, Attribute] = {}
    arrived: tuple[NamedTensor, ...] = ()
    results: tuple[NamedTensor, ...] = ()
    sent: tuple[NamedTensor, ...] = ()
    saved: tuple[SavedTensor, ...] = ()
    leaf_gradient: LeafGradient | None = None
    """Of a leaf: its ``.grad`` before and after."""
    hooks: tuple[str, ...] = ()
    has_run: bool = False
    unsaid: tuple[str, ...] = ()
    """Why numbers are missing, and how to get them."""


def node_numbers(capture: Capture, graph: Graph, node: Node, derivative: Derivative | None) -> NodeNumbers:
    """Everything that the capture holds of one node of `graph`."""
    return _Numbers(capture, graph, node, derivative).all()


@dataclass(frozen=True)
class _Numbers:
    capture: Capture
    graph: Graph
    node: Node
    derivative: Derivative | None

    def all(self) -> NodeNumbers:
        node, graph = self.node, self.graph
        site = None if node.call_site is None else graph.call_sites[readers_lines(graph)[node.call_site]]
        return NodeNumbers(
            id=node.id,
            name=node.name,
            backward=graph.backward.number if graph.backward else None,
            file=site.file if site else None,
            line=site.line if site else None,
            source=self.capture.sources.get(site.file, {}).get(site.line, "").strip() if site else "",
            function=node.forward_call or "",
            module=graph.scopes[node.scope].path if node.scope is not None else "",
            inputs=node_inputs(graph, node, self.derivative),
            attributes=node.attributes,
            arrived=tuple(self._arrived()),
            results=tuple(self._results()),
            sent=tuple(self._sent()),
            saved=node.saved,
            leaf_gradient=node.leaf_gradient,
            hooks=node.hooks,
            has_run=node.run is not None,
            unsaid=tuple(self._unsaid()),
        )

    def _arrived(self) -> Iterator[NamedTensor]:
        several = len(self.node.arrived) > 1
        for place, figures in enumerate(self.node.arrived):
            yield NamedTensor(f"grads[{place}]" if several else "grad", (), self.node.output(place), figures)

    def _results(self) -> Iterator[NamedTensor]:
        names = result_names(self.derivative.schema) if self.derivative else ()
        for place, tensor in enumerate(self.node.outputs):
            name = names[place] if len(names) == len(self.node.outputs) else f"result{place}" if place else "result"
            yield NamedTensor(name, _names_at(self.node, place), tensor, _at(self.node.values, place))

    def _sent(self) -> Iterator[NamedTensor]:
        for (name, edge), figures in zip(_named_edges(self.node, self.derivative), self.node.gradients, strict=False):
            if edge is not None:
                receiver = self.graph.nodes[edge.target]
                yield NamedTensor(name, receiver.names, None, figures, receiver.id, autograd_name(receiver))

    def _unsaid(self) -> Iterator[str]:
        if self.graph.backward is None:
            yield "no backward was recorded with this graph: there are no gradients"
        elif self.graph.backward.failed_node == self.node.id:
            yield "backward raised in this node: it sent nothing"
        elif self.node.run is None:
            yield "the engine did not run this node, or what it did was not measured"
        if not any(node.values and any(each and each.values for each in node.values) for node in self.graph.nodes):
            yield "this recording holds no values: record the script with --values"


def node_inputs(graph: Graph, node: Node, derivative: Derivative | None) -> tuple[NamedTensor, ...]:
    """What a node was computed from, in the order of its function's arguments, as far as that is known."""
    inputs = [_from_edge(graph, name, edge) for name, edge in _named_edges(node, derivative) if edge is not None]
    constants = [graph.constants[place] for place in node.constants]
    names = _names_of_constants(node, constants, derivative)
    inputs += [
        NamedTensor(name, constant_names(each), each.tensor, each.value, wants_gradient=False)
        for name, each in zip(names, constants, strict=True)
    ]
    order = {each.name: place for place, each in enumerate(tensor_arguments(derivative.schema if derivative else ""))}
    return tuple(sorted(inputs, key=lambda each: order.get(each.name.partition("[")[0], len(order))))


def names_of_edges(node: Node, derivative: Derivative | None) -> tuple[str, ...]:
    """The argument that each edge belongs to; empty where nobody can tell.

    Without torch's own formulas it is the order in which the plain ones name their inputs, where they are as many.
    """
    count = len(node.edges)
    if derivative is not None:
        return edge_names(derivative, count)
    plain = plain_formula(node.name)
    return tuple(plain.gradients) if plain is not None and len(plain.gradients) == count else ()


def _named_edges(node: Node, derivative: Derivative | None) -> list[tuple[str, Edge | None]]:
    names = names_of_edges(node, derivative)
    return list(zip(names or [f"input {place}" for place in range(len(node.edges))], node.edges, strict=True))


def _from_edge(graph: Graph, name: str, edge: Edge) -> NamedTensor:
    source = graph.nodes[edge.target]
    return NamedTensor(
        name,
        _names_at(source, edge.input_nr),
        source.output(edge.input_nr),
        _at(source.values, edge.input_nr),
        source.id,
        autograd_name(source),
        _names_behind_views(graph, source),
    )


def _names_at(node: Node, output_nr: int) -> tuple[str, ...]:
    return tuple(name for held in node.held if held.output_nr == output_nr for name in held.names)


def _names_behind_views(graph: Graph, node: Node) -> tuple[str, ...]:
    edge: Edge | None = None
    while node.kind == "view" and len(node.edges) == 1 and node.edges[0] is not None:
        edge = node.edges[0]
        node = graph.nodes[edge.target]
    return () if edge is None else _names_at(node, edge.input_nr)


def _names_of_constants(node: Node, constants: list[Constant], derivative: Derivative | None) -> list[str]:
    """By their order among the arguments that no gradient goes to, unless what was saved tells another; else by number.

    A call may take its arguments in another order than the node that it makes: ``linear(input, weight, bias)`` runs
    ``addmm(bias, input, weight)``.
    """
    free = _free_arguments(node, derivative, len(constants))
    saved = {each.slot: each.tensor for each in node.saved if each.slot in free and each.tensor is not None}
    if len(free) == len(constants) and all(
        saved.get(name) in (None, constant.tensor) for name, constant in zip(free, constants, strict=True)
    ):
        return free
    names = [_only([slot for slot, tensor in saved.items() if tensor == constant.tensor]) for constant in constants]
    left = _only([name for name in free if name not in names])
    return [
        name or (left if left and names.count("") == 1 else f"constant {place}") for place, name in enumerate(names)
    ]


def _only(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ""


def _free_arguments(node: Node, derivative: Derivative | None, count: int) -> list[str]:
    """Tensors that the function takes and that no edge leads to, in order; a list that never gets a gradient, as the
    indices of ``x[i, j]``, is taken to be as long as `count` says."""
    names: list[str] = []
    on_edges = names_of_edges(node, derivative)
    without_edge = [name for name, edge in zip(on_edges, node.edges, strict=False) if edge is None]
    for argument in tensor_arguments(derivative.schema if derivative else ""):
        of_edges = [name for name in on_edges if name.partition("[")[0] == argument.name]
        if of_edges:
            names += [name for name in of_edges if name in without_edge]
        elif argument.is_list:
            names += [f"{argument.name}[{place}]" for place in range(count - len(names))]
        else:
            names.append(argument.name)
    return names


def _at(figures: tuple[TensorFigures | None, ...], place: int) -> TensorFigures | None:
    return figures[place] if place < len(figures) else None
