"""The graph of a loss in the most direct way, by what torch itself offers and without any code of gradviz.

To be made between forward and backward: afterwards the saved tensors are gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tests.stored_tensors import stored_tensors

LEAF_NUMBER = 2**64 - 1


@dataclass(frozen=True)
class NaiveTensor:
    """A saved tensor, by what can be compared later on without keeping it."""

    shape: tuple[int | str, ...]
    dtype: str
    bytes: int


@dataclass(frozen=True)
class NaiveNode:
    """One node, as torch shows it."""

    name: str
    sequence_nr: int | None
    edges: tuple[tuple[int, int] | None, ...]
    """Place in the list of nodes, and ``input_nr``."""
    parameter: str | None
    """The dotted name of the leaf's tensor in its model."""
    is_leaf: bool
    saved: dict[str, NaiveTensor]


def walk(loss: torch.Tensor, model: torch.nn.Module) -> list[NaiveNode]:
    """Every node that the loss reaches; the first is its own."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = [loss.grad_fn]
    places = {loss.grad_fn: 0}
    nodes = []
    for node in found:  # grows meanwhile
        assert node is not None
        edges: list[tuple[int, int] | None] = []
        for receiver, number in node.next_functions:
            if receiver is None:
                edges.append(None)
                continue
            if receiver not in places:
                places[receiver] = len(found)
                found.append(receiver)
            edges.append((places[receiver], number))
        leaf = getattr(node, "variable", None)
        sequence_nr = node._sequence_nr()
        nodes.append(
            NaiveNode(
                node.name(),
                None if sequence_nr == LEAF_NUMBER else sequence_nr,
                tuple(edges),
                names.get(id(leaf)) if leaf is not None else None,
                leaf is not None,
                saved_tensors(node),
            )
        )
    return nodes


def saved_tensors(node: Any) -> dict[str, NaiveTensor]:
    """What a node keeps, by the name of the slot."""
    found = {}
    for slot, tensor in stored_tensors(node):
        dtype = str(tensor.dtype).removeprefix("torch.")
        found[slot] = NaiveTensor(tuple(tensor.shape), dtype, tensor.numel() * tensor.element_size())
    return found
