"""Says which operation of a compiled region each tensor belongs to that the region saved.

A compiled function saves what its partitioner chose, in its own order, and torch does not always tell what each tensor
is. So a saved tensor is taken for the first one of its shape that autograd would have saved: an input of the region for
an input, a result of an operation for a result. Which input it is, torch tells of leaves and of what other nodes made.
Memory that several operations would have saved is saved once. If autograd would have saved none, a tensor is taken for
the first result of that shape. What fits nothing stays with the region's last operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from gradviz.graph.model import Edge, Graph, Node
from gradviz.graph.saved_tensors import SavedTensor


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
    input_nr: int | None = None
    """The input of the region, among its tensors, that has this memory, such as a weight whose transpose is saved."""


def with_saved_tensors(nodes: Sequence[Node], expected: Sequence[WouldSave], region: Node, graph: Graph) -> list[Node]:
    """The operations of a region, each with the tensors that the region saved for it.

    Args:
        region: the node of the compiled function in `graph`, which is not opened yet.
    """
    result = list(nodes)
    chosen = _Choice(nodes, expected, region, graph).of_all() if result else []
    for tensor, found in zip(region.saved, chosen, strict=False):
        index = found.node if found is not None else len(result) - 1
        own = replace(
            tensor,
            slot=found.slot if found is not None else tensor.slot,
            source=found.source if found is not None else None,
            source_nr=found.source_nr if found is not None else 0,
        )
        result[index] = replace(result[index], saved=(*result[index].saved, own))
    return result


class _Choice:
    """Which tensor that autograd would have saved each tensor is that the region saved."""

    def __init__(self, nodes: Sequence[Node], expected: Sequence[WouldSave], region: Node, graph: Graph) -> None:
        self._waiting = list(expected)
        self._results = [
            WouldSave(node.id, "result", facts.shape, facts.dtype, node.id, number)
            for node in nodes
            for number, facts in enumerate(node.outputs)
            if facts is not None
        ]
        self._region = region
        self._graph = graph
        self._of_storage: dict[int, WouldSave] = {}

    def of_all(self) -> list[WouldSave | None]:
        """One for each tensor, None if it fits nothing; those of which torch tells what they are choose first."""
        saved = self._region.saved
        inputs = [self._input(each) for each in saved]
        order = sorted(range(len(saved)), key=lambda number: inputs[number][1] is None)
        found = {number: self._of(saved[number], *inputs[number]) for number in order}
        return [found[number] for number in range(len(saved))]

    def _of(self, tensor: SavedTensor, is_input: bool, input_nr: int | None) -> WouldSave | None:
        """A tensor that shares its memory with an earlier one is taken for the same."""
        found = self._of_storage.get(tensor.storage) if tensor.storage is not None else None
        found = found or self._taken(self._waiting, tensor, is_input, input_nr)
        if found is None and not is_input:  # what needs no gradient can be an input, too
            found = self._taken(self._waiting, tensor, True) or self._taken(self._results, tensor, False)
        if found is not None and tensor.storage is not None:
            self._of_storage[tensor.storage] = found
        return found

    def _taken(
        self, candidates: list[WouldSave], tensor: SavedTensor, is_input: bool, input_nr: int | None = None
    ) -> WouldSave | None:
        """The first candidate like the tensor, which is removed, with all others that are the same memory."""
        found = next((each for each in candidates if _is_alike(each, tensor, is_input, input_nr)), None)
        if found is not None:
            candidates[:] = [
                each for each in candidates if each is not found and not (found.memory and each.memory == found.memory)
            ]
        return found

    def _input(self, tensor: SavedTensor) -> tuple[bool, int | None]:
        """Whether it is an input of the region, and which, if torch tells that."""
        edges = self._region.edges
        if tensor.source is not None and tensor.source != self._region.id:
            made_by = Edge(tensor.source, tensor.source_nr)
            return True, edges.index(made_by) if made_by in edges else None
        if tensor.storage is None or (storage := self._graph.storages[tensor.storage]).kind == "intermediate":
            return False, None
        return True, next((self._leaves[name] for name in storage.names if name in self._leaves), None)

    @cached_property
    def _leaves(self) -> dict[str, int]:
        """The inputs of the region that are leaves, by their names."""
        return {
            name: number
            for number, edge in enumerate(self._region.edges)
            if edge is not None and self._graph.nodes[edge.target].is_leaf
            for held in self._graph.nodes[edge.target].held
            for name in held.names
        }


def _is_alike(candidate: WouldSave, tensor: SavedTensor, is_input: bool, input_nr: int | None) -> bool:
    facts = tensor.tensor
    if facts is None or (candidate.input_nr is not None) != is_input:
        return False
    sizes = (candidate.shape, candidate.shape[::-1] if len(candidate.shape) == 2 else candidate.shape)
    return input_nr in (None, candidate.input_nr) and facts.shape in sizes and facts.dtype == candidate.dtype
