"""Says which operation of a compiled region each tensor belongs to that the region saved.

A compiled function saves what its partitioner chose, in its own order. Where torch tells which operation made a tensor,
or which input it is, the tensor belongs to the operation for which autograd would have saved it, and otherwise to the
one that made it. Where torch does not tell it, a parameter is known by its name; anything else is taken for the first
tensor of its size that autograd would have saved, or else for the first result of that size. What fits nothing stays
with the region's last operation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from msgspec.structs import replace

from gradviz.graph.model import Node
from gradviz.graph.saved_tensors import SavedTensor, Storage

_LIST_SLOT = re.compile(r"tensors\[(\d+)\]")


class WouldSave(NamedTuple):
    """A tensor that autograd saves for an operation, if the operation is not compiled."""

    node: int
    """The operation that needs it, by its id in the region."""
    slot: str
    shape: tuple[int | str, ...]
    dtype: str
    source: int | None
    """The operation that made it; None for an input of the region."""
    source_nr: int = 0
    memory: int = 0
    """The same for tensors that share their memory."""
    bytes: int = 0
    """Of that memory; 0 for that of an input."""
    input: int | None = None
    """The input of the region whose memory it is, among those that are tensors."""
    has_gradient: bool = True
    """False for what was made without gradient, such as a mask or indices; `source` is then the operation itself."""


class Told(NamedTuple):
    """What torch tells of a tensor that a region saved."""

    shape: tuple[int | None, ...]
    """Without sizes that are not the same in every call."""
    input: int | None = None
    """As in `WouldSave`."""
    node: int | None = None
    """The operation that made it, by its id in the region."""


class SavedByRegion:
    """The tensors of one region.

    Args:
        nodes: its operations.
        expected: what autograd would have saved.
        told: what torch tells of each tensor, by slot; None if it tells nothing.
        inputs: inputs by the names of parameters.
        made_before: inputs by the operation outside that made them, and the number of its result.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        expected: Sequence[WouldSave],
        told: Sequence[Told | None] | None,
        inputs: Mapping[str, int],
        made_before: Mapping[tuple[int, int], int],
        storages: Sequence[Storage],
    ) -> None:
        self._nodes, self._told, self._inputs, self._storages = nodes, told, inputs, storages
        self._made_before = made_before
        self._expected = expected
        self._bases = {node.id: self._base_of(node) for node in nodes}
        self._waiting = sorted(expected, key=self._when_made)
        self._results = [
            WouldSave(node.id, "result", facts.shape, facts.dtype, node.id, number)
            for node in nodes
            for number, facts in enumerate(node.outputs)
            if facts is not None
        ]
        self._is_guessed = False

    def placed(self, saved: Sequence[SavedTensor]) -> tuple[list[Node], bool]:
        """The operations, each with the tensors that the region saved for it; and whether sizes alone decided which."""
        result = list(self._nodes)
        for tensor in saved if result else ():
            found = self._place_of(tensor)
            index = found.node if found is not None else len(result) - 1
            own = replace(
                tensor,
                slot=found.slot if found is not None and found.slot else tensor.slot,
                source=found.source if found is not None else None,
                source_nr=found.source_nr if found is not None else 0,
            )
            result[index] = replace(result[index], saved=(*result[index].saved, own))
        is_all_kept = all(each.input is not None or each.source is None for each in self._waiting)
        return result, self._is_guessed and not is_all_kept

    def _place_of(self, tensor: SavedTensor) -> WouldSave | None:
        told = self._told_of(tensor)
        if told is None:
            return self._guessed(tensor)
        if told.input is not None:
            users = [each for each in self._waiting if each.input == told.input]
            return self._taken(tensor, users) or self._user_of(told.input)
        maker = told.node
        if maker is None:
            return None
        base = self._bases[maker]
        made_inside = [each for each in self._waiting if each.source is not None and each.input is None]
        results = [each for each in made_inside if each.has_gradient]
        others = [each for each in made_inside if not each.has_gradient]
        return (
            self._taken(tensor, [each for each in results if each.source == maker])
            or self._taken(tensor, [each for each in results if self._bases[each.source or 0] == base])
            or self._taken(tensor, [each for each in made_inside if each.node == maker])
            or self._taken(tensor, [each for each in others if each.node > maker])
            or WouldSave(maker, "", (), "", maker)
        )

    def _told_of(self, tensor: SavedTensor) -> Told | None:
        names = self._storages[tensor.storage].names if tensor.storage is not None else ()
        number = next((self._inputs[name] for name in names if name in self._inputs), None)
        if number is None and tensor.source is not None:
            number = self._made_before.get((tensor.source, tensor.source_nr))
        if number is not None:
            return Told((), input=number)
        slot = _LIST_SLOT.fullmatch(tensor.slot)
        index = int(slot[1]) if slot is not None else 0
        told = self._told[index] if slot is not None and self._told and index < len(self._told) else None
        facts = tensor.tensor
        if told is None or facts is None or len(told.shape) != len(facts.shape):
            return None
        fits = all(size in (None, own) for size, own in zip(told.shape, facts.shape, strict=True))
        return told if fits else None

    def _guessed(self, tensor: SavedTensor) -> WouldSave | None:
        kind = self._storages[tensor.storage].kind if tensor.storage is not None else "intermediate"
        if kind != "intermediate":
            return self._taken(tensor, [each for each in self._waiting if each.source is None])
        self._is_guessed = True
        found = self._taken(tensor, [each for each in self._waiting if each.source is not None and each.input is None])
        last = self._nodes[-1].id
        return found or self._taken(tensor, self._results) or WouldSave(last, "", (), "", last)

    def _taken(self, tensor: SavedTensor, candidates: Sequence[WouldSave]) -> WouldSave | None:
        """The first candidate of the tensor's size, which is a candidate no more."""
        facts = tensor.tensor
        if facts is None:
            return None
        wanted = facts.dtype, _elements(facts.shape)
        found = next((each for each in candidates if (each.dtype, _elements(each.shape)) == wanted), None)
        for remaining in (self._waiting, self._results):
            if found in remaining:
                remaining.remove(found)
        return found

    def _user_of(self, number: int) -> WouldSave | None:
        """An operation that takes an input of the region."""
        expected = next((each for each in self._expected if each.input == number), None)
        if expected is not None:
            return expected
        target = -1 - number
        users = (node for node in self._nodes if any(edge is not None and edge.target == target for edge in node.edges))
        found = next(users, None)
        return None if found is None else WouldSave(found.id, "", (), "", None)

    def _when_made(self, each: WouldSave) -> tuple[int, int]:
        """Compiled functions save results in the order in which they were made."""
        return (-1 if each.source is None else self._bases[each.source], each.node)

    def _base_of(self, node: Node) -> int:
        """The operation whose memory a result of this one is: views share it."""
        while node.kind == "view" and node.edges and node.edges[0] is not None and node.edges[0].target >= 0:
            node = self._nodes[node.edges[0].target]
        return node.id


def _elements(shape: Sequence[int | str]) -> int:
    return prod(size for size in shape if isinstance(size, int))
