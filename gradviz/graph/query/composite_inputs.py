"""Which operation of a composite call takes the data that the call was given.

One call of torch may make several nodes, and the recorder lists the call's data at the last of them: a linear layer on
three-dimensional data ends in a view, which takes no second tensor. An empty entry among the inputs of an earlier node
of the same call shows where the data went, and its shape shows which of several it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gradviz.graph.model import Graph, Node

PRODUCTS = ("MmBackward0", "AddmmBackward0")
"""Products of two matrices, which are the last inputs."""

Shape = tuple[int | str, ...]


def with_constants_at_users(graph: Graph) -> Graph:
    """The same graph with constants at the operations that take them, as far as these can be found."""
    moved: dict[int, tuple[int, ...]] = {}
    for node in graph.nodes:
        if node.constants and node.forward_call is not None and None not in node.edges:
            moved.update(_takers(graph, node))
    if not moved:
        return graph
    nodes = list(graph.nodes)
    for index, constants in moved.items():
        nodes[index] = replace(nodes[index], constants=constants)
    return replace(graph, nodes=tuple(nodes))


def _takers(graph: Graph, last: Node) -> dict[int, tuple[int, ...]]:
    """The constants of each operation of a call; empty unless every constant has an operation that takes it."""
    free = [node for node in reversed(list(_earlier_in_call(graph.nodes, last))) if None in node.edges]
    if len(free) == 1:
        return {last.id: (), free[0].id: last.constants}
    wanted = [_missing_shape(graph.nodes, node) for node in free]
    taken: dict[int, tuple[int, ...]] = {}
    for shape in dict.fromkeys(wanted):
        givers = [constant for constant in last.constants if graph.constants[constant].tensor.shape == shape]
        users = [node.id for node, missing in zip(free, wanted, strict=True) if missing == shape]
        if len(givers) == 1 and any(graph.nodes[user].name in PRODUCTS for user in users):
            givers *= len(users)  # The state of a GRU cell is multiplied by a weight, and used once more.
        if len(givers) == len(users):
            # Several of one shape, such as the two states of an LSTM cell, are used in the order in which they are
            # given.
            taken.update({user: (giver,) for user, giver in zip(users, givers, strict=True)})
    placed = {constant for constants in taken.values() for constant in constants}
    return {last.id: (), **taken} if placed == set(last.constants) else {}


def _earlier_in_call(nodes: Sequence[Node], last: Node) -> Iterator[Node]:
    """The operations that the call made before its last one, the latest first."""
    call = last.forward_call, last.call_site, last.scope
    for index in range(last.id - 1, -1, -1):
        node = nodes[index]
        if node.is_leaf:
            continue
        if node.constants or (node.forward_call, node.call_site, node.scope) != call:
            return
        yield node


def _missing_shape(nodes: Sequence[Node], node: Node) -> Shape | None:
    """The shape of an input that is not in the graph: that of the result, except for a product of two matrices."""
    result = _first_shape(node)
    if node.name not in PRODUCTS:
        return result
    factors = node.edges[-2:]
    if factors[0] is not None or factors[1] is None or result is None:
        return None
    other = _first_shape(nodes[factors[1].target])
    return (result[0], other[0]) if other and len(result) == 2 else None


def _first_shape(node: Node) -> Shape | None:
    return node.outputs[0].shape if node.outputs and node.outputs[0] is not None else None
