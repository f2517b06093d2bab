"""The inputs of a node, by the names of its function's arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from gradviz.formulas.arguments import edge_names, tensor_arguments
from gradviz.formulas.derivative import Derivative
from gradviz.formulas.plain import plain_formula
from gradviz.formulas.special_nodes import special_node
from gradviz.graph.gradients import TensorFigures, at_index
from gradviz.graph.model import Constant, Edge, Graph, Node
from gradviz.graph.query.operation_names import autograd_name, constant_names
from gradviz.graph.tensor_facts import TensorFacts
from gradviz.graph.traversal import behind_views


class NamedTensor(Struct, frozen=True, omit_defaults=True):
    """A tensor, or a gradient, by its name in the formula."""

    name: str
    """``self``, ``result``, ``grad``; ``input 0`` if no schema names it."""
    variables: tuple[str, ...] = ()
    """Its names in the program."""
    tensor: TensorFacts | None = None
    figures: TensorFigures | None = None
    """With all numbers, if it is small and they were recorded."""
    node: int | None = None
    """Id of the node that produced it; for a sent gradient, of the node that received it."""
    node_name: str = ""
    view_of: tuple[str, ...] = ()
    """Names of the tensor that it is a view of: nn.Linear uses its weight transposed."""
    wants_gradient: bool = True


def node_inputs(graph: Graph, node: Node, derivative: Derivative | None) -> tuple[NamedTensor, ...]:
    """The inputs of a node, as far as known, in the order of its function's arguments."""
    inputs = [_from_edge(graph, name, edge) for name, edge in named_edges(node, derivative) if edge is not None]
    constants = [graph.constants[index] for index in node.constants]
    names = _names_of_constants(node, constants, derivative)
    inputs += [
        NamedTensor(name, constant_names(each), each.tensor, each.value, wants_gradient=False)
        for name, each in zip(names, constants, strict=True)
    ]
    order = {each.name: index for index, each in enumerate(tensor_arguments(derivative.schema if derivative else ""))}
    inputs += _from_what_was_saved(node, order.keys() - {each.name for each in inputs})
    return tuple(sorted(inputs, key=lambda each: order.get(each.name.partition("[")[0], len(order))))


def have_complex_numbers(tensors: Iterable[NamedTensor]) -> bool:
    """Whether conjugates matter in the formulas of a node with these tensors."""
    return any(each.tensor is not None and each.tensor.is_complex for each in tensors)


def names_of_edges(node: Node, derivative: Derivative | None) -> tuple[str, ...]:
    """The argument of each edge; empty if unknown.

    If torch has no formula, the order is that of the inputs in the plain formula, or in the handwritten explanation.
    """
    count = len(node.edges)
    if derivative is not None:
        return edge_names(derivative, count)
    plain, special = plain_formula(node.name), special_node(node.name)
    names = tuple(plain.gradients) if plain is not None else special.inputs if special is not None else ()
    return names if len(names) == count else ()


def named_edges(node: Node, derivative: Derivative | None) -> list[tuple[str, Edge | None]]:
    """Each edge with the name of its argument; ``input 0`` if the names are unknown."""
    names = names_of_edges(node, derivative)
    return list(zip(names or [f"input {index}" for index in range(len(node.edges))], node.edges, strict=True))


def _from_edge(graph: Graph, name: str, edge: Edge) -> NamedTensor:
    source = graph.nodes[edge.target]
    return NamedTensor(
        name,
        source.names_at(edge.input_nr),
        source.output(edge.input_nr),
        at_index(source.values, edge.input_nr),
        source.id,
        autograd_name(source),
        _names_behind_views(graph, source),
    )


def _from_what_was_saved(node: Node, arguments: Collection[str]) -> Iterator[NamedTensor]:
    """A plain number, like the 3 of ``x * 3``, is no tensor of the program, but torch makes one of it and saves it."""
    for saved in node.saved:
        if saved.slot in arguments and saved.value is not None:
            yield NamedTensor(saved.slot, (), saved.tensor, saved.value, wants_gradient=False)


def _names_behind_views(graph: Graph, node: Node) -> tuple[str, ...]:
    behind, output_nr = behind_views(graph, node.id)
    return () if behind == node.id else graph.nodes[behind].names_at(output_nr)


def _names_of_constants(node: Node, constants: list[Constant], derivative: Derivative | None) -> list[str]:
    """By the order of the arguments that get no gradient, unless a saved tensor contradicts it; otherwise by number.

    A call may have its arguments in another order than its node: ``linear(input, weight, bias)`` runs
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
        name or (left if left and names.count("") == 1 else f"constant {index}") for index, name in enumerate(names)
    ]


def _only(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ""


def _free_arguments(node: Node, derivative: Derivative | None, count: int) -> list[str]:
    """Tensor arguments without an edge, in order. A list that never gets a gradient, such as the indices of ``x[i,
    j]``, is assumed to fill up `count`."""
    names: list[str] = []
    on_edges = names_of_edges(node, derivative)
    without_edge = [name for name, edge in zip(on_edges, node.edges, strict=False) if edge is None]
    for argument in tensor_arguments(derivative.schema if derivative else ""):
        of_edges = [name for name in on_edges if name.partition("[")[0] == argument.name]
        if of_edges:
            names += [name for name in of_edges if name in without_edge]
        elif argument.is_list:
            names += [f"{argument.name}[{index}]" for index in range(count - len(names))]
        else:
            names.append(argument.name)
    return names
