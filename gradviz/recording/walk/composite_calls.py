"""Which of the nodes of a composite call, such as a linear layer, takes which of the call's inputs without gradient."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeVar

from gradviz.graph.model import Edge

_Constant = TypeVar("_Constant", bound=Hashable)


class NodeOfCall(NamedTuple):
    """One of the nodes of a call."""

    node: int
    edges: Sequence[Edge | None]
    is_view: bool


def takers_of_constants(
    constants: Sequence[_Constant], nodes: Sequence[NodeOfCall]
) -> dict[int, tuple[_Constant, ...]]:
    """The constants of a call for each of its nodes, which are in order of creation.

    The inputs belong to the nodes in this order, one for each input of a node that needs no gradient. An input that is
    none of these, such as a mask or class indices, belongs to the last node that is no view.
    """
    free = (each.node for each in nodes for edge in each.edges if edge is None)
    last = next((each for each in reversed(nodes) if not each.is_view), nodes[-1])
    taken: dict[int, list[_Constant]] = {each.node: [] for each in nodes}
    for constant in dict.fromkeys(constants):
        taken[next(free, last.node)].append(constant)
    return {index: tuple(each) for index, each in taken.items()}
